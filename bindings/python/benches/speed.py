"""How fast, beside the same work in Rust, and beside other filters for Python. One thread, all in one run, so that the
ratios count more than the rates.

    cargo build --release --manifest-path bindings/python/benches/counterpart/Cargo.toml
    maturin build --release --features bench --manifest-path bindings/python/Cargo.toml, and install the wheel
    counterpart fill /dev/shm/bench.gowk 460000000               # a filter of 1 GiB
    python speed.py COUNTERPART /dev/shm/bench.gowk [KEYS]

The keys are ``https://example.org/page/N``, 10 million of them unless given; none is in the filter. Each line is the best
of several rounds, in which the two sides of a ratio take turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import gowk
from gowk import _gowk

ROUNDS = 5


def rate(number: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return number / (time.perf_counter() - start) / 1e6


def each(keys: list[str], where: Any) -> None:
    for key in keys:
        key in where  # noqa: B015


def main(program: str, file: str, number: int) -> None:
    keys = [f"https://example.org/page/{i}" for i in range(number)]
    arrow = pa.array(keys)
    rust = subprocess.Popen(
        [program, "time", file, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def counterpart(what: str) -> float:
        assert rust.stdin and rust.stdout
        print(what, file=rust.stdin, flush=True)
        return float(rust.stdout.readline())

    def insert_many(keys: Any) -> float:
        writer = gowk.Writer(file, mode="r+")
        speed = rate(number, lambda: writer.insert_many(keys))
        writer.rollback()
        writer.close()
        return speed

    reader = gowk.Reader(file)
    few = keys[:100_000]
    folder = tempfile.TemporaryDirectory()
    with gowk.Writer(f"{folder.name}/small", capacity=len(few)) as writer:
        writer.update(few)
    small = gowk.Reader(f"{folder.name}/small")
    nothing = _gowk.Nothing()  # type: ignore[attr-defined]
    lines: list[tuple[str, Callable[[], float], str, Callable[[], float]]] = [
        (
            "contains_many, Arrow",
            lambda: rate(number, lambda: reader.contains_many(arrow)),
            "contains_batch",
            lambda: counterpart("contains"),
        ),
        (
            "contains_many, list of str",
            lambda: rate(number, lambda: reader.contains_many(keys)),
            "contains_batch",
            lambda: counterpart("contains"),
        ),
        ("insert_many, Arrow", lambda: insert_many(arrow), "insert_batch", lambda: counterpart("insert")),
        ("insert_many, list of str", lambda: insert_many(keys), "insert_batch", lambda: counterpart("insert")),
        (
            "in, of 100,000 keys in the cache",
            lambda: rate(len(few), lambda: each(few, small)),
            "an empty method",
            lambda: rate(len(few), lambda: each(few, nothing)),
        ),
        (
            "in",
            lambda: rate(number, lambda: each(keys, reader)),
            "an empty method",
            lambda: rate(number, lambda: each(keys, nothing)),
        ),
        (
            "in",
            lambda: rate(number, lambda: each(keys, reader)),
            "contains, from Rust",
            lambda: counterpart("single"),
        ),
    ]
    print("| millions a second | | beside | | ratio |\n|---|---|---|---|---|")
    for name, ours, other_name, theirs in lines:
        best, other = 0.0, 0.0
        for _ in range(ROUNDS):
            best, other = max(best, ours()), max(other, theirs())
        print(f"| {name} | {best:.1f} | {other_name} | {other:.1f} | {best / other:.2f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10_000_000)
