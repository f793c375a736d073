"""What a batch costs as the store grows: gowk.spark beside Spark's own dropDuplicates and anti-join against all earlier keys in
Parquet, and beside the single machine's `gowk dedup`.

    python spark.py FOLDER [ROWS] [BATCHES]

ROWS (20 million unless given) are divided into BATCHES (10). Half of the rows of each batch have new keys, the other half
repeat keys of this and earlier batches, so that in the end there are half as many distinct keys as rows. All sides read
the same batches from Parquet; `gowk dedup` reads the same keys as lines. The three take turns, batch by batch. Spark runs
as ``local[2]``; the store has 8 shards and lies on the disk of FOLDER, as do the copies that its tasks make.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import gowk
import gowk.spark

SHARDS = 8


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(folder: Path, rows: int, batches: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    builder = builder.config("spark.sql.shuffle.partitions", SHARDS).config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.local.dir", str(folder / "spark"))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 50_000)
    half = rows // batches // 2
    for batch in range(batches):
        fresh = spark.range(batch * half, (batch + 1) * half).select(sf.col("id"))
        old = spark.range(half).select((sf.xxhash64("id", sf.lit(batch)) % sf.lit((batch + 1) * half)).alias("id"))
        keys = fresh.union(old.select(sf.abs("id").alias("id")))
        keys = keys.select(sf.format_string("https://example.org/page/%d", "id").alias("url"))
        keys.write.parquet(f"{folder}/in/batch={batch}")
        keys.write.text(f"{folder}/lines/batch={batch}")
    gowk.Store.create(folder / "store", shards=SHARDS, capacity=rows // 2, false_positive_rate=1e-6)
    store = gowk.spark.SparkStore(folder / "store", local=folder / "local")
    gowk.Store.create(folder / "alone.store", shards=SHARDS, capacity=rows // 2, false_positive_rate=1e-6)
    # Starts Python workers, so that the first batch does not pay for it.
    gowk.Store.create(folder / "warm.store", shards=2)
    warm, few = gowk.spark.SparkStore(folder / "warm.store"), spark.range(1000).select(sf.col("id").cast("string").alias("url"))
    warm.unseen(few, "url", application="bench", batch=0).count()
    warm.insert(few, "url", application="bench", batch=0)
    few.dropDuplicates(["url"]).count()
    print(f"{rows} rows in {batches} batches, {SHARDS} shards; seconds a batch")
    print("batch  unseen  insert     sum | dropDuplicates + anti-join | gowk dedup | new: gowk.spark  Spark    gowk dedup", flush=True)
    for batch in range(batches):
        df = spark.read.parquet(f"{folder}/in/batch={batch}")
        new = f"{folder}/new/batch={batch}"
        unseen = timed(lambda: store.unseen(df, "url", application="bench", batch=batch).write.parquet(new))
        insert = timed(lambda: store.insert(df, "url", application="bench", batch=batch))
        exact = f"{folder}/exact/batch={batch}"

        def joined() -> None:
            rows = df.dropDuplicates(["url"])
            if batch:
                earlier = spark.read.parquet(*[f"{folder}/exact/batch={number}" for number in range(batch)])
                rows = rows.join(earlier, "url", "left_anti")
            rows.write.parquet(exact)

        join = timed(joined)
        lines, output = sorted(Path(f"{folder}/lines/batch={batch}").glob("part-*")), folder / "alone.txt"

        def alone() -> None:
            command = ["gowk", "dedup", str(folder / "alone.store"), "--token", f"bench:{batch}", "--threads", "2"]
            with output.open("wb") as out, subprocess.Popen(["cat", *lines], stdout=subprocess.PIPE) as cat:
                subprocess.run(command, stdin=cat.stdout, stdout=out, stderr=subprocess.DEVNULL, check=True)

        single = timed(alone)
        counts = [spark.read.parquet(new).count(), spark.read.parquet(exact).count(), output.read_bytes().count(b"\n")]
        print(
            f"{batch:5} {unseen:7.1f} {insert:7.1f} {unseen + insert:7.1f} | {join:26.1f} | {single:10.1f} | "
            f"{counts[0]:15} {counts[1]:8} {counts[2]:10}",
            flush=True,
        )
    info = gowk.Store(folder / "store").info()
    kept = sum(path.stat().st_size for path in (folder / "exact").rglob("*.parquet"))
    print(f"store: {info.bytes} bytes for {info.entries} keys; earlier keys in Parquet: {kept} bytes")
    spark.stop()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:]]
    main(Path(sys.argv[1]).absolute(), *[*numbers, *[20_000_000, 10][len(numbers) :]])
