"""gowk beside rbloom and pybloomfiltermmap3: one thread, keys ``https://example.org/page/N``, filters for as many keys as
are added, at a rate of 1 in 1000; each on its own in a process of its own.

    pip install rbloom pybloomfiltermmap3 pyarrow
    python peers.py [KEYS]
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any


def rate(number: int, work: Callable[[], object]) -> str:
    start = time.perf_counter()
    work()
    return f"{number / (time.perf_counter() - start) / 1e6:.2f}"


def each(keys: list[str], where: Any) -> int:
    return sum(key in where for key in keys)


def add_each(keys: list[str], add: Callable[[str], object]) -> None:
    for key in keys:
        add(key)


def stable_hash(text: Any) -> int:
    """A hash that is the same in every process, as rbloom's documentation requires for filters that are saved."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big", signed=True)


def one(kind: str, number: int, folder: str) -> None:
    keys = [f"https://example.org/page/{i}" for i in range(number)]
    absent = [f"https://example.org/absent/{i}" for i in range(number)]
    path = os.path.join(folder, kind)
    if kind.startswith("gowk"):
        import pyarrow as pa

        import gowk

        with gowk.Writer(path, capacity=number, false_positive_rate=1e-3) as writer:
            half = number // 2
            single = rate(half, lambda: add_each(keys[:half], writer.add))
            batch = pa.array(keys[half:]) if "Arrow" in kind else keys[half:]
            many = rate(number - half, lambda: writer.update(batch))
        reader = gowk.Reader(path)
        present, found = rate(number, lambda: each(keys, reader)), each(absent, reader)
        looked_up = pa.array(keys) if "Arrow" in kind else keys
        batches = rate(number, lambda: reader.contains_many(looked_up))
        size = os.path.getsize(path)
    else:
        if kind.startswith("rbloom"):
            import rbloom

            bloom: Any = rbloom.Bloom(number, 1e-3, stable_hash) if "stable" in kind else rbloom.Bloom(number, 1e-3)
        else:
            import pybloomfilter

            bloom = pybloomfilter.BloomFilter(number, 1e-3, path)
        half = number // 2
        single = rate(half, lambda: add_each(keys[:half], bloom.add))
        many = rate(number - half, lambda: bloom.update(keys[half:]))
        present, found = rate(number, lambda: each(keys, bloom)), each(absent, bloom)
        batches = "-"
        size = (bloom.size_in_bits if kind.startswith("rbloom") else bloom.num_bits) // 8
    print(f"| {kind} | {single} | {many} | {present} | {batches} | {size / number:.2f} | {found / number:.2e} |")


def main(number: int) -> None:
    print("| millions a second | add | update | in | contains_many | bytes a key | false positives |")
    print("|---|---|---|---|---|---|---|", flush=True)
    kinds = ["gowk, list of str", "gowk, Arrow", "rbloom, Python's hash", "rbloom, a stable hash", "pybloomfiltermmap3"]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, __file__, kind, str(number), folder], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        one(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
