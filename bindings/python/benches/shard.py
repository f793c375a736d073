"""What one task does with one shard, step by step, without Spark: the rates that bindings/python/docs/spark.md computes with.

    python shard.py FOLDER [KEYS]

The store has one shard and KEYS keys (100 million unless given). A batch of a hundredth of the keys, half of them new,
comes in Arrow batches of 10,000. One thread.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import gowk
from gowk._disk import Disk
from gowk.spark import _tasks


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(folder: Path, number: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = gowk.Store.create(folder / "store", shards=1, capacity=number * 11 // 10, false_positive_rate=1e-4)
    with store.update() as update:
        for start in range(0, number, 1_000_000):
            update.update(pa.array([f"https://example.org/page/{i}" for i in range(start, min(number, start + 1_000_000))]))
    file, few = store.files[0], number // 100
    batch = pa.array([f"https://example.org/page/{i}" for i in range(number - few // 2, number + few // 2)])
    batches = [batch.slice(start, 10_000) for start in range(0, len(batch), 10_000)]
    print(f"{number} keys in a shard of {file.bytes} bytes, {8 * file.bytes / file.entries:.1f} bits a key; {len(batch)} keys a batch")
    disk = Disk(folder / "local", 1 << 40)
    seconds = timed(lambda: disk.fetch(file))
    print(f"fetch:        {file.bytes / seconds / 1e6:8.0f} MB/s")
    plan = _tasks.Plan(str(store.path), store.version, str(folder / "task"), 1 << 40, True, "bench")
    # Spark sorts the rows by their hashes. Here all keys differ, so any order will do.
    rows = [(pa.array(np.full(len(keys), index)), keys) for index, keys in enumerate(batches)]
    first = timed(lambda: list(_tasks.unseen(plan, iter(rows))))
    again = timed(lambda: list(_tasks.unseen(plan, iter(rows))))
    print(f"unseen:       {first:8.2f} s with the fetch, {again:.2f} s without: {len(batch) / again / 1e6:.1f} million keys/s")
    base = gowk.Store(store.path, copies=disk.copies)
    few_keys = base.update(base=base, scratch=folder)
    recorded = timed(lambda: [few_keys.update(keys) for keys in batches])
    print(f"records:      {len(batch) / recorded / 1e6:8.1f} million keys/s")
    sealed = timed(lambda: few_keys.seal())
    print(f"seal a run:   {len(batch) / 2 / sealed / 1e6:8.1f} million keys/s")
    change = base.update(base=base, scratch=folder, rewriting=True)
    opened = timed(lambda: change.update(batches[0]))
    print(f"working copy: {file.bytes / opened / 1e6:8.0f} MB/s")
    inserted = timed(lambda: [change.update(keys) for keys in batches[1:]])
    print(f"insert:       {(len(batch) - 10_000) / inserted / 1e6:8.1f} million keys/s")
    sealed = timed(lambda: change.seal())
    print(f"seal:         {file.bytes / sealed / 1e6:8.0f} MB/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if sys.argv[2:] else 100_000_000)
