"""A server of the S3 protocol on this machine, started by the tests, with a bucket of its own.

moto is installed with the tests. A server that runs already is named by GOWK_TEST_BUCKET, an address ``s3://bucket``, with
``AWS_ENDPOINT_URL`` and credentials beside it.
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

SERVER = Path(__file__).parents[2] / "tests" / "s3" / "server.py"


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
            for _ in range(300):
                try:
                    urllib.request.urlopen(urllib.request.Request(f"{address}/gowk-test", method="PUT"), timeout=10)
                    break
                except OSError:
                    if server.poll() is not None:
                        raise
                    time.sleep(0.2)
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
