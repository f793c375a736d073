"""Spark: which URLs of each batch no earlier batch had, as three batches and as a stream.

python examples/spark_dedup.py FOLDER

The URLs are the repository's sample: 20,000 lines, many of them repeated. The first run with a FOLDER makes a store in
it; a second run repeats the same batches, finds the same URLs new, and commits nothing. The cluster is this machine,
unless ``spark-submit --master`` names another one.
"""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import gowk
import gowk.spark

URLS = Path(__file__).parents[3] / "examples" / "urls.txt.gz"


def lay_out(folder: Path) -> list[Path]:
    """The lines as three files, as if they had come in three nights."""
    with gzip.open(URLS, "rt") as file:
        lines = file.readlines()
    nights = folder / "nights"
    nights.mkdir(parents=True, exist_ok=True)
    size = -(-len(lines) // 3)
    files = [nights / f"{night}.txt" for night in range(3)]
    for night, path in enumerate(files):
        if not path.exists():
            path.write_text("".join(lines[night * size : (night + 1) * size]))
            # The stream takes the oldest first.
            os.utime(path, (night, night))
    return files


def open_store(path: Path) -> gowk.spark.SparkStore:
    if not gowk.Store.is_at(path):
        gowk.Store.create(path, shards=4, capacity=100_000, false_positive_rate=1e-6)
    return gowk.spark.SparkStore(path)


def as_batches(spark: SparkSession, folder: Path, files: list[Path]) -> int:
    store, everything = open_store(folder / "batches.store"), 0
    for batch, path in enumerate(files):
        df = spark.read.text(str(path)).withColumnRenamed("value", "url")
        out = f"{folder}/new/batch={batch}"
        # The sink first, and so that a repeated batch replaces what it wrote before.
        store.unseen(df, "url", application="example", batch=batch).write.mode("overwrite").parquet(out)
        # Then the keys. Those of the new rows are enough: the store has all others.
        new = spark.read.parquet(out)
        done = store.insert(new, "url", application="example", batch=batch)
        everything += new.count()
        print(f"batch {batch}: {df.count()} URLs, {new.count()} new; {done.outcome}, version {done.version}")
    return everything


def as_stream(spark: SparkSession, folder: Path) -> int:
    store, counts = open_store(folder / "stream.store"), list[int]()

    def write(new: DataFrame, batch: int) -> None:
        out = f"{folder}/streamed/batch={batch}"
        new.write.mode("overwrite").parquet(out)
        counts.append(spark.read.parquet(out).count())
        print(f"micro-batch {batch}: {counts[-1]} new")

    urls = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "nights")).withColumnRenamed("value", "url")
    stream = urls.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    stream = stream.foreachBatch(store.each_batch("example", write, column="url"))
    stream.trigger(availableNow=True).start().awaitTermination()
    return sum(counts)


def main(folder: Path) -> None:
    builder = SparkSession.builder.appName("spark_dedup").config("spark.sql.shuffle.partitions", 4)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    files = lay_out(folder)
    distinct = len(set("".join(path.read_text() for path in files).splitlines()))
    new = as_batches(spark, folder, files)
    print(f"{new} URLs of {distinct} were new in one of the batches")
    assert distinct - 3 <= new <= distinct
    streamed = as_stream(spark, folder)
    print(f"the stream: {streamed} new" if streamed else "the stream: all was done before")
    assert streamed in (0, new)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
