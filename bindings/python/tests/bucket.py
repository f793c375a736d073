"""A server of the S3 protocol on this machine, started by the tests, with a bucket of its own.

moto is installed with the tests. A server that runs already is named by GOWK_TEST_BUCKET, an address ``s3://bucket``, with
``AWS_ENDPOINT_URL`` and credentials beside it.

With ``GOWK_TEST_STORES=buckets``, the stores of all tests lie in that bucket, and not in folders. A test that cannot is marked
with :func:`needs_a_folder`, which says why.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

IN_BUCKETS = os.environ.get("GOWK_TEST_STORES") == "buckets"
SERVER = Path(__file__).parents[3] / "tests" / "buckets" / "server.py"


@contextmanager
def served(cache: Path) -> Iterator[dict[str, str]]:
    """The variables of the environment with which the bucket ``GOWK_TEST_BUCKET`` is reached."""
    if "GOWK_TEST_BUCKET" in os.environ:
        yield {"GOWK_CACHE": str(cache)}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, str(SERVER), address.rpartition(":")[2]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(1000):
                try:
                    urllib.request.urlopen(urllib.request.Request(f"{address}/gowk-test", method="PUT"), timeout=10)
                    break
                except OSError:
                    if server.poll() is not None:
                        raise
                    time.sleep(0.2)
            else:
                raise TimeoutError(address)
            yield {
                "AWS_ACCESS_KEY_ID": "gowk-test-key",
                "AWS_SECRET_ACCESS_KEY": "gowk-test-secret",
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ENDPOINT_URL": address,
                "GOWK_TEST_BUCKET": "s3://gowk-test",
                "GOWK_CACHE": str(cache),
            }
        finally:
            server.kill()


def needs_a_folder(why: str) -> pytest.MarkDecorator:
    """Marks a test whose stores cannot lie in a bucket."""
    return pytest.mark.skipif(IN_BUCKETS, reason=f"needs a folder: {why}")


def place(name: str = "s") -> str:
    """Where a store of the running test lies: in its folder, or in the bucket under a prefix of its own."""
    return f"{os.environ['GOWK_TEST_PLACE']}/{name}" if IN_BUCKETS else name


def store_in(folder: Path) -> Path | str:
    """The place of a store that would lie in this folder of the running test."""
    return place(f"{folder.name}/store") if IN_BUCKETS else folder / "store"


def path_of(name: str = "s") -> Path | str:
    """How gowk names that place."""
    return place(name) if IN_BUCKETS else Path(name).absolute()


def _objects(store: Path | str) -> tuple[Any, str, str]:
    import boto3  # comes with moto

    name, _, prefix = str(store).removeprefix("s3://").partition("/")
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name=os.environ["AWS_REGION"])
    return client, name, f"{prefix}/"


def files_of(store: Path | str) -> dict[str, int]:
    """All files of a store, by their names in it, and the bytes of each."""
    if not str(store).startswith("s3://"):
        root = Path(store)
        return {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    client, bucket, prefix = _objects(store)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    objects = [one for page in pages for one in page.get("Contents", [])]
    return {one["Key"].removeprefix(prefix): one["Size"] for one in objects}


def text_of(store: Path | str, name: str) -> str:
    """A text of a store."""
    if not str(store).startswith("s3://"):
        return (Path(store) / name).read_text()
    client, bucket, prefix = _objects(store)
    return str(client.get_object(Bucket=bucket, Key=prefix + name)["Body"].read(), "utf-8")


def working_copies(store: Path | str) -> list[str]:
    """The files that updates and commits of this test have under way."""
    if IN_BUCKETS:
        work = Path(os.environ["GOWK_CACHE"]) / "work"
        return sorted(path.name for path in work.rglob("*") if path.is_file())
    return sorted(name for name in files_of(store) if name.startswith("incoming/"))
