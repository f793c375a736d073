from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

THOROUGH = bool(os.environ.get("GOWK_THOROUGH"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has a folder of its own."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
