"""Two threads of Python in ``contains_many``, beside one after the other: the same work, both in one run.

    counterpart fill /dev/shm/bench.gowk 460000000       # as for speed.py; any filter will do
    python threads.py /dev/shm/bench.gowk [KEYS]

Each line is the best of several rounds, in which the two take turns. The machine must have two idle cores.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pyarrow as pa

import gowk

ROUNDS = 7


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(file: str, number: int) -> None:
    reader = gowk.Reader(file)
    halves = [pa.array([f"https://example.org/page/{i}" for i in range(start, number, 2)]) for start in range(2)]

    def one_after_the_other() -> None:
        for keys in halves:
            reader.contains_many(keys)

    def side_by_side() -> None:
        threads = [threading.Thread(target=reader.contains_many, args=(keys,)) for keys in halves]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for place, work in enumerate((one_after_the_other, side_by_side)):
            best[place] = min(best[place], seconds(work))
    print(f"{best[0]:.3f} s one after the other, {best[1]:.3f} s side by side: {best[1] / best[0]:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
