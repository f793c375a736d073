from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from bucket import IN_BUCKETS, served

THOROUGH = bool(os.environ.get("GOWK_THOROUGH"))

# A command that a shell starts in the background ignores these signals, and its children inherit that. Tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def server_of_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server for the stores of all tests, if they lie in buckets."""
    if not IN_BUCKETS:
        yield
        return
    with pytest.MonkeyPatch.context() as patch, served(tmp_path_factory.mktemp("cache")) as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_of_stores: None) -> Iterator[Path]:
    """Each test has a folder of its own; and a prefix in the bucket, and a cache."""
    monkeypatch.chdir(tmp_path)
    if IN_BUCKETS:
        monkeypatch.setenv("GOWK_TEST_PLACE", f"{os.environ['GOWK_TEST_BUCKET']}/{uuid4().hex}")
        monkeypatch.setenv("GOWK_CACHE", f"{tmp_path}-cache")
    yield tmp_path
