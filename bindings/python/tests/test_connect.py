"""Invariant checked: over Spark Connect, all that a driver calls has the outcome that it has without.

Needs `pip install 'pyspark[connect]'`, and is skipped without. `ci-spark` does not run it, as it starts a Spark of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gowk

if find_spec("pyspark") is not None:
    from pyspark.errors import StreamingQueryException

pytestmark = [
    pytest.mark.skipif(find_spec("pyspark") is None or find_spec("grpc") is None, reason="pyspark[connect] is not installed"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.remote("local[2]").getOrCreate()
        yield session
        session.stop()


def create(folder: Path) -> Any:
    import gowk.spark

    gowk.Store.create(folder / "store", shards=4, capacity=100_000, false_positive_rate=1e-6)
    return gowk.spark.SparkStore(folder / "store")


def test_batches_are_told_apart_and_committed_once(session: Any, folder: Path) -> None:
    store = create(folder)
    df = session.createDataFrame([(f"key {number % 50}", number) for number in range(100)], "url string, n int")
    for outcome in ("new", "already"):
        new = store.unseen(df, "url", application="night", batch=0, order_by="n")
        assert sorted(row.n for row in new.collect()) == list(range(50))
        assert store.insert(df, "url", application="night", batch=0).outcome == outcome
    assert gowk.Store(store.path).version == 2
    folded = store.compact(session, all=True)
    assert (folded.version, folded.folded) == (3, 4) and gowk.Store(store.path).info().pending == 0
    more = session.createDataFrame([("key 1", 1), ("key 50", 2)], "url string, n int")
    assert {row.url: row.seen for row in store.mark(more, "url").collect()} == {"key 1": True, "key 50": False}
    store.register("seen")
    assert session.sql("SELECT seen('key 1'), seen('key 50')").collect()[0][:] == (True, False)
    with pytest.raises(TypeError, match="'n' is int: cast it"):
        store.unseen(df, "n", application="night", batch=1)


def test_a_stream_has_each_key_once(session: Any, folder: Path) -> None:
    store, out = create(folder), f"{folder}/out"
    (folder / "in").mkdir()
    (folder / "in" / "0").write_text("a\nb\na\n")

    def write(new: Any, batch: int) -> None:
        new.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    lines = session.readStream.text(f"{folder}/in").writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    lines.foreachBatch(store.each_batch("night", write, column="value")).trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.value for row in session.read.parquet(out).collect()) == ["a", "b"]
    assert gowk.Store(store.path).tokens["night"].number == 0
    # A new checkpoint: its batch 0 has other keys.
    (folder / "in" / "1").write_text("c\n")
    (folder / "in" / "0").unlink()
    lines = session.readStream.text(f"{folder}/in").writeStream.option("checkpointLocation", f"{folder}/another checkpoint")
    query = lines.foreachBatch(store.each_batch("night", write, column="value")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="needs another application name"):
        query.awaitTermination()
    assert "c" not in gowk.Store(store.path)
