"""Refuses to be imported in a sub-interpreter, where the compiled part would wait for ever at the exit."""

import importlib
import sys
from typing import Any

_module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
_interpreters: Any
try:
    _interpreters = importlib.import_module(_module)
except ImportError:  # Not CPython: it has none.
    _interpreters = None
if _interpreters is not None:
    # From Python 3.13 on these are tuples that begin with the number.
    _current, _main = _interpreters.get_current(), _interpreters.get_main()
    if getattr(_current, "id", _current) != getattr(_main, "id", _main):
        raise ImportError("gowk does not run in a sub-interpreter of Python; use processes, or threads of the main interpreter")
