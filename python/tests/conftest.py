from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

THOROUGH = bool(os.environ.get("GOWK_THOROUGH"))

# A command that a shell starts in the background ignores these signals, and its children inherit that. Tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has a folder of its own."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
