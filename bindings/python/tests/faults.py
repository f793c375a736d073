"""Faults injected in the tests of gowk.spark: executors and drivers that are killed, tasks that raise.

A fault is a file in the folder GOWK_FAULTS. The process that removes it strikes, so that each fault strikes once, in whatever
process comes by first.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

import gowk.spark
from gowk.spark import _source, _tasks

FAULTS = Path(os.environ.get("GOWK_FAULTS", "."))


def set_fault(name: str) -> None:
    (FAULTS / name).touch()


def is_pending(name: str) -> bool:
    return (FAULTS / name).exists()


def strikes(name: str) -> bool:
    try:
        (FAULTS / name).unlink()
    except FileNotFoundError:
        return False
    return True


def kill_executor() -> None:
    """Kills the Java process above this Python worker."""
    process = os.getpid()
    while Path(f"/proc/{process}/comm").read_text().strip() != "java":
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(process, signal.SIGKILL)
    time.sleep(60)


def kill_driver() -> None:
    """Kills the driver's Java process and its Python process, which have left their ids."""
    for process in (FAULTS / "driver").read_text().split():
        os.kill(int(process), signal.SIGKILL)
    time.sleep(60)


def strike(where: str) -> None:
    if strikes(f"executor killed {where}"):
        kill_executor()
    if strikes(f"task raises {where}"):
        raise RuntimeError("on purpose")


def within_unseen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs after ``unseen`` in the same task, and passes its rows on."""
    for batch in batches:
        strike("in unseen")
        yield batch


class Writer(_source.Writer):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> _source.Written:
        def batches() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                # The update has the keys now.
                strike("in insert")

        written = super().write(batches())
        strike("after sealing")
        return written

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        super().commit(messages)
        if strikes("driver killed after commit"):
            kill_driver()


class Source(gowk.spark.Source):
    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        plain = super().writer(schema, overwrite)
        return Writer(plain.plan, plain.change, plain.token, plain.column, plain.rewriting, plain.lifetime)


def folding(store: gowk.spark.SparkStore, plan: _tasks.Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """In the place of ``Store._folding``."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def begun() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                strike("before folding")
                # The fold itself calls nothing of Python, so that another thread has to strike.
                Thread(target=strike, args=["while folding"], daemon=True).start()
                yield batch

        for batch in _tasks.folded(plan, begun()):
            strike("after folding")
            yield batch

    return fold
