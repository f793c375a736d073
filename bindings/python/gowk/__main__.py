"""The command-line tool: ``gowk``, or ``python -m gowk``."""

from __future__ import annotations

import signal
import sys

from ._gowk import command


def main() -> int:
    """Runs the tool with the arguments of the process; returns its exit code."""
    # Python's own handler only notes Ctrl-C and raises later. The tool handles the signal itself, or lets it end the
    # process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["gowk", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
