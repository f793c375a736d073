"""A Spark application that de-duplicates batches of lines, as the tests run and kill it:

    nightly.py batches FOLDER      each file of FOLDER/in is a batch, in the order of their names; from the last one that was committed
    nightly.py stream FOLDER       the same files as a stream, one in each micro-batch, until all are done

Lines that are new go to FOLDER/out/batch=N, and the keys to FOLDER/store, or to the bucket of the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import faults
from bucket import store_in
from pyspark.sql import DataFrame, SparkSession

import gowk.spark


def session(cores: str) -> SparkSession:
    tests = str(Path(__file__).parent)
    settings = {
        "spark.ui.enabled": "false",
        # Java processes that live for seconds gain nothing from the best compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": tests,
        "spark.executorEnv.GOWK_FAULTS": str(faults.FAULTS),
        # The tests kill more executors than an application tolerates by default.
        "spark.deploy.maxExecutorRetries": "-1",
        # Keeps the logs of tasks as a table.
        "spark.sql.pyspark.worker.logging.enabled": "true",
    }
    builder = SparkSession.builder.master(cores).appName("nightly")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    gowk.spark._store.Source = faults.Source  # type: ignore[misc]
    gowk.spark.SparkStore._folding = faults.folding  # type: ignore[method-assign]
    return spark


def write(folder: Path, new: DataFrame, batch: int) -> None:
    new.mapInArrow(faults.within_unseen, new.schema).write.mode("overwrite").parquet(f"{folder}/out/batch={batch}")
    if faults.strikes("driver killed before insert"):
        faults.kill_driver()


def batches(spark: SparkSession, folder: Path) -> None:
    store = gowk.spark.SparkStore(store_in(folder))
    # The last batch in the store is repeated: the process that committed it may have died before its end.
    done = gowk.Store(store.path).tokens.get("nightly")
    first = 0 if done is None else done.number
    for batch, lines in list(enumerate(sorted((folder / "in").iterdir())))[first:]:
        df = spark.read.text(str(lines))
        write(folder, store.unseen(df, "value", application="nightly", batch=batch), batch)
        store.insert(df, "value", application="nightly", batch=batch)


def stream(spark: SparkSession, folder: Path) -> None:
    store = gowk.spark.SparkStore(store_in(folder))
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))
    each = store.each_batch("nightly", lambda new, batch: write(folder, new, batch), column="value")
    query = lines.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(each)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    spark = session(os.environ.get("GOWK_CORES", "local[2]"))
    java = spark.sparkContext._gateway.proc.pid
    (faults.FAULTS / "driver").write_text(f"{java} {os.getpid()}")
    {"batches": batches, "stream": stream}[sys.argv[1]](spark, Path(sys.argv[2]))
    spark.stop()
