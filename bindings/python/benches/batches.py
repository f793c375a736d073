"""What a batch of few keys costs gowk.spark: writing its keys as a run, beside writing every touched shard anew.

    python batches.py FOLDER [KEYS] [BATCHES] [NEW]

A store of KEYS (10 million unless given) in 8 shards is filled by one process and folded, and copied. BATCHES (20) of NEW keys
(10,000, a thousandth) each go into both stores, in turns: once as `Store.insert` does it, and once with the data source's option
``rewriting``. Before each insert, `unseen` counts the batch's new rows, as it would for the sink. Spark runs as
``local[2]``. Times are of the calls. Bytes are of the files that the calls leave in the store's folder, counted by name,
and of the copies of shards that they make on the local disk. In the end, the runs are folded.

Prints each batch, the medians, and the processor with the load at the beginning and the end.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import gowk
import gowk.spark

SHARDS = 8


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and "scratch" not in path.parts}


class Side:
    """One of the two stores, and what its batches have cost."""

    def __init__(self, spark: SparkSession, folder: Path, rewriting: bool) -> None:
        self.spark, self.folder, self.rewriting = spark, folder, rewriting
        self.store = gowk.spark.SparkStore(folder / "store", local=folder / "local")
        self.costs: list[tuple[float, float, int, int]] = []

    def batch(self, df: DataFrame, number: int, new: int) -> None:
        before = sizes(self.folder)
        counted = []
        unseen = timed(lambda: counted.append(self.store.unseen(df, "url", application="bench", batch=number).count()))
        insert = timed(lambda: self._insert(df, number))
        assert counted[0] >= new * 0.999, counted
        made = {path: size for path, size in sizes(self.folder).items() if path not in before}
        local = sum(size for path, size in made.items() if "local" in path.parts)
        self.costs.append((unseen, insert, sum(made.values()) - local, local))

    def _insert(self, df: DataFrame, number: int) -> None:
        if not self.rewriting:
            self.store.insert(df, "url", application="bench", batch=number)
            return
        options = {"application": "bench", "batch": number, "local": str(self.folder / "local"), "rewriting": "true"}
        rows = self.store.by_shard(df.select("url"), "url")
        rows.write.format("gowk").mode("append").options(**options).save(self.store.path)

    def __str__(self) -> str:
        return "whole shards" if self.rewriting else "runs"


def machine() -> str:
    named = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{named[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"


def main(folder: Path, keys: int, batches: int, new: int) -> None:
    print(machine())
    shutil.rmtree(folder, ignore_errors=True)
    full = folder / "runs" / "store"
    full.parent.mkdir(parents=True)
    store = gowk.Store.create(full, shards=SHARDS, capacity=keys * 11 // 10, false_positive_rate=1e-6, threads=2)
    step = 1_000_000
    with store.update() as update:
        for start in range(0, keys, step):
            update.update(f"https://example.org/page/{number}" for number in range(start, min(keys, start + step)))
    store.compact(all=True)
    # Versions of the filling are none of a batch's.
    store.vacuum(grace=0)
    shutil.copytree(full, folder / "whole" / "store")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
    builder = builder.config("spark.sql.shuffle.partitions", SHARDS).config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.local.dir", str(folder / "spark")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(gowk.spark.Source)
    sides = [Side(spark, folder / "runs", False), Side(spark, folder / "whole", True)]

    def rows(start: int, end: int) -> DataFrame:
        return spark.range(start, end).selectExpr("concat('https://example.org/page/', id) AS url")

    # Starts Python workers, and fetches the shards.
    for side in sides:
        side.store.unseen(rows(0, 10_000), "url", application="warm", batch=0).count()
    info = store.info()
    print(f"{info.entries} keys in {SHARDS} shards, {info.bytes} bytes; {batches} batches of {new} new keys")
    print("batch  side          unseen  insert  seconds  bytes in the store  bytes a key  bytes copied near")
    for number in range(batches):
        df = rows(keys + number * new, keys + (number + 1) * new)
        for side in sides:
            side.batch(df, number, new)
            unseen, insert, written, near = side.costs[-1]
            print(f"{number:5}  {side!s:12}  {unseen:6.2f}  {insert:6.2f}  {unseen + insert:7.2f}  {written:18}  {written / new:11.0f}  {near:17}", flush=True)
    for side in sides:
        unseen, insert, written, near = (statistics.median(costs) for costs in zip(*side.costs, strict=True))
        both = statistics.median(cost[0] + cost[1] for cost in side.costs)
        print(f"median {side!s:12}  {unseen:6.2f}  {insert:6.2f}  {both:7.2f}  {written:18.0f}  {written / new:11.0f}  {near:17.0f}")
        print(f"  all  {side!s:12}  {'':24}{sum(cost[2] for cost in side.costs):20}  {'':11}  {sum(cost[3] for cost in side.costs):17}")
        assert gowk.Store(side.store.path).contains_many(f"https://example.org/page/{key}" for key in range(keys, keys + batches * new)).all()
    told = []
    seconds = timed(lambda: told.append(sides[0].store.compact(spark, all=True)))
    print(f"all runs folded in the end: {told[0].folded} shards, {told[0].bytes} bytes, {seconds:.1f} s")
    print(machine())
    spark.stop()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:]]
    main(Path(sys.argv[1]).absolute(), *[*numbers, *[10_000_000, 20, 10_000][len(numbers) :]])
