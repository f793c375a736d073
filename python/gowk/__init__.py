"""Has this key been seen? A persistent, crash-safe, on-disk cuckoo filter, in about two bytes a key.

>>> import gowk
>>> with gowk.Writer("seen.gowk", capacity=1_000_000) as seen:   # opens it, or creates it
...     seen.add_new("https://example.org/")                     # True: it is new
...     seen.update_new(["https://example.org/", "https://example.com/"])
True
array([False,  True])
>>> "https://example.com/" in gowk.Reader("seen.gowk")           # in any process, beside the writer
True
"""

from ._errors import *
from ._errors import __all__ as _errors
from ._gowk import Job, Reader, Writer, __version__, release_thread
from ._info import (
    Committed,
    DamagedPage,
    Forecast,
    Info,
    InputSummary,
    Plan,
    PlannedInput,
    Progress,
    Repair,
    Report,
    Summary,
    Tally,
)
from ._metadata import Metadata

__all__ = [
    "Committed",
    "DamagedPage",
    "Forecast",
    "Info",
    "InputSummary",
    "Job",
    "Metadata",
    "Plan",
    "PlannedInput",
    "Progress",
    "Reader",
    "Repair",
    "Report",
    "Summary",
    "Tally",
    "Writer",
    "__version__",
    "release_thread",
]
__all__ += _errors
