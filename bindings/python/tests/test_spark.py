"""Invariants checked:

1. Over all batches, the rows that ``unseen`` returns have each key once, and leave out no more keys than false positives
   explain; every key that was inserted is found.
2. A killed executor, a task that fails, a driver that is killed before or after the commit, a batch that is repeated and a
   stream that is killed and restarted change neither the rows nor the store, and a vacuum removes what they left. Nor do
   folds of shards, or what kills them.
3. A task reads the file of its own shard and no other; it makes no Python object for a row. A task with few keys does not
   rewrite its shard; all such tasks of a batch leave one run in its version. The driver folds no shard.
4. Local disks keep no more than they are told to, and nothing of killed tasks.
5. Executors that share nothing but a bucket give the same rows and the same store, though some are killed.
6. Whatever is wrong is told with the store, the shard and the batch.

With GOWK_THOROUGH=1 everything that is killed is killed 20 times. GOWK_URLS names another file of lines; of a name
that ends in .gz, compressed by gzip.
"""

from __future__ import annotations

import cProfile
import gzip
import os
import pstats
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from bucket import files_of, needs_a_folder, store_in, text_of
from conftest import THOROUGH

import gowk

HERE = Path(__file__).parent
URLS = Path(os.environ.get("GOWK_URLS", HERE.parents[2] / "examples" / "urls.txt.gz"))
ROUNDS = 20 if THOROUGH else 1
RATE = 1e-3

needs_spark = pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
if find_spec("pyspark") is not None:
    import bucket
    import faults
    import nightly
    import numpy as np
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql import functions as sf

    import gowk.spark
    from gowk.spark import _tasks

from gowk._disk import Disk

pytestmark = pytest.mark.timeout(3600 if THOROUGH else 900)


def test_without_pyspark_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import gowk; print('gowk is there'); import gowk.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == "gowk is there\n"
    assert done.stderr.rstrip().endswith("gowk.spark needs pyspark 4.1 or later and pyarrow: pip install 'gowk[spark]'")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A cluster of two executors, each a process of its own."""
    with pytest.MonkeyPatch.context() as patch, bucket.served(tmp_path_factory.mktemp("cache")) as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        # Executors must not find the driver's cache.
        patch.delenv("GOWK_CACHE")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("driver")))
        faults.FAULTS = tmp_path_factory.mktemp("faults")
        patch.setenv("GOWK_FAULTS", str(faults.FAULTS))
        patch.setenv("PYTHONPATH", str(HERE))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = nightly.session("local-cluster[2,1,1024]")
        yield session
        session.stop()


def create(folder: Path, shards: int = 4, **options: Any) -> gowk.spark.SparkStore:
    folder.mkdir(exist_ok=True)
    options = options or {"slots_per_bucket": 2}
    gowk.Store.create(store_in(folder), shards=shards, capacity=100_000, seed=7, **options)
    return gowk.spark.SparkStore(store_in(folder))


def lines(count: int = 10, of: int | None = None) -> list[list[str]]:
    """The lines of the file, or the first of them, in a number of batches."""
    opened = gzip.open(URLS, "rt") if URLS.suffix == ".gz" else URLS.open()
    with opened as file:
        everything = file.read().splitlines()[:of]
    size = -(-len(everything) // count)
    return [everything[start : start + size] for start in range(0, len(everything), size)]


def frame(spark: SparkSession, values: list[str]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value string").repartition(2)


def keys(rows: list[Row]) -> list[str]:
    return sorted(row.value for row in rows)


def contents(store: gowk.spark.SparkStore) -> tuple[int, tuple[int, ...], float]:
    """A value that differs for stores of different keys: the entries of the whole, their tails, and the rate."""
    with TemporaryDirectory() as folder:
        gowk.Store(store.path).join_to(Path(folder) / "joined")
        info = gowk.Reader(Path(folder) / "joined").info()
    return info.entries, info.entries_by_tail, info.expected_false_positive_rate


def files_in(store: gowk.spark.SparkStore) -> set[str]:
    """The files of shards, and runs."""
    return {Path(name).name for name in files_of(store.path) if Path(name).suffix in (".gowk", ".run")}


def named_in(store: gowk.spark.SparkStore, version: int) -> set[str]:
    """The files of shards and the runs that a version names."""
    text = tomllib.loads(text_of(store.path, f"versions/{version:012}.toml"))
    return {entry["file"] for kind in ("run", "shard") for entry in text.get(kind, [])}


def is_tidy_after_a_vacuum(store: gowk.spark.SparkStore) -> bool:
    opened = gowk.Store(store.path)
    opened.vacuum(keep=1, grace=0)
    opened.reload()
    # The version before each application's last token stays, for a retry.
    stays = [opened, *(opened.at(token.base) for token in opened.tokens.values())]
    named = {name for version in stays for name in named_in(store, version.version)}
    return files_in(store) == named and not [name for name in files_of(store.path) if name.startswith("incoming/")]


@needs_spark
def test_ten_batches_equal_drop_duplicates_over_all(spark: SparkSession, folder: Path) -> None:
    store, found = create(folder, false_positive_rate=RATE), []
    for batch, values in enumerate(lines()):
        df = frame(spark, values)
        new = keys(store.unseen(df, "value", application="night", batch=batch).collect())
        done = store.insert(df, "value", application="night", batch=batch)
        assert (done.outcome, done.token) == ("new", None) and done.version is not None and done.version >= batch + 2
        found += new
    everything = [value for values in lines() for value in values]
    exact = keys(frame(spark, everything).dropDuplicates().collect())
    assert len(found) == len(set(found)) and set(found) <= set(exact)
    lost = len(exact) - len(found)
    print(f"{len(everything)} rows, {len(exact)} distinct, {len(found)} unseen: {lost} lost, {2 * RATE * len(exact):.1f} allowed")
    assert lost <= 2 * RATE * len(exact)
    assert gowk.Store(store.path).contains_many(exact).all()
    marked = store.mark(frame(spark, [*everything, "another", "one more"]), "value").groupBy("seen").count().collect()
    assert {row.seen: row["count"] for row in marked} == {True: len(everything), False: 2}


def without_faults(folder: Path, batches: list[list[str]]) -> tuple[list[list[str]], tuple[int, tuple[int, ...], float]]:
    """The outcome of the batches in one process without faults: the new rows of each, and the store."""
    store, rows = create(folder), []
    for batch, values in enumerate(batches):
        new = gowk.Store(store.path).insert_many(values, token=("nightly", batch))
        rows.append(sorted(value for value, is_new in zip(values, new, strict=True) if is_new))
    return rows, contents(store)


@needs_spark
def test_faults_of_tasks_change_nothing(spark: SparkSession, folder: Path) -> None:
    every = [
        "executor killed in unseen",
        "executor killed in insert",
        "executor killed after sealing",
        "task raises in unseen",
        "task raises in insert",
        "task raises after sealing",
    ]
    batches = lines(len(every), 3000)
    rows, expected = without_faults(folder / "expected", batches)
    for turn in range(ROUNDS):
        store = create(folder / str(turn))
        for batch, (fault, values) in enumerate(zip(every, batches, strict=True)):
            df = frame(spark, values)
            faults.set_fault(fault)
            new = store.unseen(df, "value", application="night", batch=batch)
            assert keys(new.mapInArrow(faults.within_unseen, new.schema).collect()) == rows[batch], fault
            store.insert(df, "value", application="night", batch=batch)
            assert not faults.is_pending(fault), f"never came to this: {fault}"
        versions = range(1, len(every) + 2)
        assert contents(store) == expected and gowk.Store(store.path).version == versions[-1]
        # Tasks have left their runs, and the commit has merged them into one.
        assert all(len(named_in(store, number)) == number - 1 for number in versions)
        assert files_in(store) > named_in(store, versions[-1])
        assert is_tidy_after_a_vacuum(store)
        assert gowk.Store(store.path).contains_many([value for values in batches for value in values]).all()
    print(f"{', '.join(every)}: {ROUNDS} times each; rows and store equal, no orphan after vacuum")


@needs_spark
def test_a_repeated_batch_has_the_same_rows_and_changes_nothing(spark: SparkSession, folder: Path) -> None:
    batches = lines(2, 2000)
    rows, expected = without_faults(folder / "expected", batches)
    store = create(folder)
    for batch, values in enumerate(batches):
        store.insert(frame(spark, values), "value", application="night", batch=batch)
    for _ in range(ROUNDS):
        # From the start, by a new process that has no memory of the first try.
        again = gowk.spark.SparkStore(store.path)
        for batch, values in enumerate(batches):
            assert keys(again.unseen(frame(spark, values), "value", application="night", batch=batch).collect()) == rows[batch]
            if batch == len(batches) - 1:
                assert again.insert(frame(spark, values), "value", application="night", batch=batch).outcome == "already"
                continue
            # It would be lost if its keys were others.
            with pytest.raises(gowk.Invalid, match="the last batch of 'night' is 1, above 0"):
                again.insert(frame(spark, values), "value", application="night", batch=batch)
    assert contents(store) == expected and gowk.Store(store.path).version == 3
    print(f"two batches repeated {ROUNDS} times from the start: rows and store equal")


def run(folder: Path, mode: str) -> int:
    """Runs the application in a process of its own, until it ends or kills itself."""
    flags = {"GOWK_FAULTS": str(folder / "faults"), "PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(HERE / "nightly.py"), mode, str(folder)]
    done = subprocess.run(command, env={**os.environ, **flags}, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -9), done.stderr[-3000:]
    return done.returncode


def lay_out(folder: Path, batches: list[list[str]]) -> gowk.spark.SparkStore:
    (folder / "in").mkdir(parents=True)
    (folder / "faults").mkdir()
    for number, values in enumerate(batches):
        path = folder / "in" / f"{number:02}"
        path.write_text("".join(f"{value}\n" for value in values))
        # The stream takes the oldest first.
        os.utime(path, (number, number))
    return create(folder)


def out(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return sorted(value for value in pq.read_table(folder / "out", columns=["value"])["value"].to_pylist())


@needs_spark
def test_executors_that_share_nothing_but_a_bucket_and_are_killed_change_nothing(spark: SparkSession, folder: Path) -> None:
    kills = ["executor killed in unseen", "executor killed in insert", "executor killed after sealing"]
    batches = lines()[: len(kills)]
    rows, expected = without_faults(folder / "expected", batches)
    address = f"{os.environ['GOWK_TEST_BUCKET']}/{uuid4().hex}"
    gowk.Store.create(address, shards=4, capacity=100_000, seed=7, slots_per_bucket=2)
    store = gowk.spark.SparkStore(address)
    assert store.path == address
    for batch, (fault, values) in enumerate(zip(kills, batches, strict=True)):
        df = frame(spark, values)
        faults.set_fault(fault)
        new = store.unseen(df, "value", application="night", batch=batch)
        assert keys(new.mapInArrow(faults.within_unseen, new.schema).collect()) == rows[batch], fault
        assert store.insert(df, "value", application="night", batch=batch).outcome == "new"
        assert store.insert(df, "value", application="night", batch=batch).outcome == "already"
        assert not faults.is_pending(fault), f"never came to this: {fault}"
    assert contents(store) == expected
    # Each shard's file is fetched by the executors that look into it. One that has only just started in place of a
    # killed one may get no task of a job, so there are several.
    store.compact(spark, all=True)

    def cache(_: int) -> str:
        time.sleep(0.5)
        return os.environ["SPARK_LOCAL_DIRS"].split(",")[0] + "/gowk/cache"

    for _ in range(20):
        df = frame(spark, batches[0]).repartition(8)
        assert store.mark(df, "value").where("seen").count() == len(batches[0])
        caches = set(spark.sparkContext.parallelize(range(8), 8).map(cache).collect())
        if len(caches) == 2 and all(list(Path(cache).rglob("*.gowk")) for cache in caches):
            break
    else:
        pytest.fail(f"no files of shards in the caches of both executors: {[(cache, list(Path(cache).rglob('*'))) for cache in caches]}")
    assert gowk.Store(address).vacuum(keep=1, grace=0).files > 0
    assert contents(store) == expected


@needs_spark
def test_a_driver_that_is_killed_and_started_again_changes_nothing(folder: Path) -> None:
    batches = lines(ROUNDS + 1, 200 * (ROUNDS + 1))
    exact = sorted({value for values in batches for value in values})
    _, expected = without_faults(folder / "expected", batches)
    store = lay_out(folder, batches)
    for batch in range(ROUNDS):
        # Twice in each batch: before its version, and after it.
        for fault, last in [("driver killed before insert", batch - 1), ("driver killed after commit", batch)]:
            (folder / "faults" / fault).touch()
            assert run(folder, "batches") == -9
            done = gowk.Store(store.path).tokens.get("nightly")
            assert (-1 if done is None else done.number) == last
        print(f"batch {batch}: driver killed before insert, and after commit", flush=True)
    assert run(folder, "batches") == 0
    assert out(folder) == exact
    assert contents(store) == expected and gowk.Store(store.path).tokens["nightly"].number == ROUNDS
    assert is_tidy_after_a_vacuum(store)
    print(f"driver killed before insert, and after commit: {ROUNDS} times each; rows and store equal, no orphan after vacuum")


@needs_spark
def test_a_stream_that_is_killed_and_restarted_has_each_key_once(folder: Path) -> None:
    faults_in_turn = ["driver killed before insert", "driver killed after commit"] * 3
    kills = faults_in_turn[: 5 if THOROUGH else 2]
    batches = lines(6, 3000)
    store = lay_out(folder, batches)
    for fault in kills:
        (folder / "faults" / fault).touch()
        assert run(folder, "stream") == -9
    assert run(folder, "stream") == 0
    assert out(folder) == sorted({value for values in batches for value in values})
    assert contents(store) == without_faults(folder / "expected", batches)[1]
    assert gowk.Store(store.path).version == 7 and is_tidy_after_a_vacuum(store)
    print(f"a stream killed {len(kills)} times: each of {len(out(folder))} keys once")


@needs_spark
def test_a_stream_with_another_checkpoint_needs_another_name(spark: SparkSession, folder: Path) -> None:
    store = lay_out(folder, [["a", "b"]])
    gowk.Store(store.path).insert_many(["a"], token=("nightly", 5, "query of before"))
    with pytest.raises(PySparkException, match="is of query of before, and this is query .* needs another application name"):
        nightly.stream(spark, folder)
    assert gowk.Store(store.path).version == 2


@needs_spark
def test_without_a_querys_id_another_checkpoint_needs_another_name_too(spark: SparkSession, folder: Path) -> None:
    # Like over Spark Connect: the function is called outside of a query.
    store, written = create(folder), []
    batch = store.each_batch("nightly", lambda new, number: written.append((number, keys(new.collect()))), column="value")
    first, second = frame(spark, ["a", "b"]), frame(spark, ["c"])
    batch(first, 0)
    # A batch is repeated, with its rows in another order.
    batch(frame(spark, ["b", "a"]), 0)
    with pytest.raises(ValueError, match="the last batch of 'nightly', 0, is committed, and this is another batch 0.*another application name"):
        batch(second, 0)
    batch(second, 1)
    batch(second, 1)
    batch(frame(spark, []), 2)
    for number in (0, 1):
        with pytest.raises(ValueError, match=f"the last batch of 'nightly', 2, is committed, and this is another batch {number}"):
            batch(first, number)
    assert written == [(0, ["a", "b"]), (0, ["a", "b"]), (1, ["c"]), (1, ["c"]), (2, [])]
    assert gowk.Store(store.path).version == 4


@needs_spark
@needs_a_folder("removes files of shards")
def test_a_task_reads_its_own_shard_alone(spark: SparkSession, folder: Path) -> None:
    store, values = create(folder, 8), lines(1, 4000)[0]
    store.insert(frame(spark, values), "value", application="night", batch=0)
    store.compact(spark, all=True)
    store.insert(frame(spark, ["in a run"]), "value", application="night", batch=1)
    opened = gowk.Store(store.path)
    assert sorted(opened.files) == list(range(8)) and opened.info().runs == 1
    shards = opened.shards_of(values)
    for shard, file in opened.files.items():
        if shard != 3:
            file.path.unlink()
    of_3 = [value for value, shard in zip(values, shards, strict=True) if shard == 3]
    other = next(value for value, shard in zip(values, shards, strict=True) if shard == 4)
    local = gowk.spark.SparkStore(store.path, local=folder / "disk")
    rows = local.unseen(frame(spark, [*of_3, *new_of(opened, 3)]), "value", application="night", batch=2).collect()
    assert keys(rows) == sorted(new_of(opened, 3))
    copies = {path.name: path.stat().st_size for path in (folder / "disk" / "gowk" / "copies").iterdir()}
    assert copies == {opened.files[3].name: opened.files[3].bytes}
    logs = spark.tvf.python_worker_logs().where("logger = 'gowk.spark' AND msg LIKE '%fetched%'").select("msg").collect()
    told = [row.msg for row in logs if str(opened.files[3].path) in row.msg]
    assert f"shard 3: fetched {opened.files[3].bytes} bytes of {opened.files[3].path}" in told
    print(told[-1], f"of {sum(file.bytes for file in opened.files.values())} bytes in {len(opened.files)} shards")
    with pytest.raises(PySparkException) as caught:
        local.unseen(frame(spark, [other]), "value", application="night", batch=2).collect()
    for word in ["missing, although version", "shard 4", str(store.path), "batch 2 of 'night'", "version 4"]:
        assert word in str(caught.value)


def new_of(store: gowk.Store, shard: int) -> list[str]:
    candidates = [f"new {number}" for number in range(200)]
    return [key for key, its in zip(candidates, store.shards_of(candidates), strict=True) if its == shard]


@needs_spark
def test_no_python_call_is_made_for_a_row(folder: Path) -> None:
    store = gowk.Store.create(store_in(folder), shards=1, capacity=500_000, slots_per_bucket=2, seed=7)
    store.insert_many([f"key {number}" for number in range(100_000)])
    plan = _tasks.Plan(str(store.path), 2, str(folder), 1 << 30, True, "test")

    def calls(rows: int) -> tuple[int, float]:
        batch = pa.array([f"key {number}" for number in range(100_000 - rows // 2, 100_000 + rows // 2)])
        hashes = pa.array(range(rows), pa.int64())
        profile = cProfile.Profile()
        answers = profile.runcall(lambda: list(_tasks.unseen(plan, iter([(hashes, batch)]))))
        assert answers[0].to_pylist() == [False] * (rows // 2) + [True] * (rows // 2)
        told = pstats.Stats(profile)
        return told.total_calls, told.total_tt  # type: ignore[attr-defined]

    calls(100)
    few, many = calls(100), calls(100_000)
    print(f"100 rows: {few[0]} calls, {few[1]:.4f} s; 100000 rows: {many[0]} calls, {many[1]:.4f} s")
    assert many[0] <= few[0] + 5


def rot(path: Path) -> None:
    """Changes each page of a filter's regions, which are its last ones."""
    data, pages = bytearray(path.read_bytes()), gowk.Reader(path, sealed=True).verify().pages
    for page in range(len(data) - 4096 * pages, len(data), 4096):
        data[page + 17] ^= 0x40
    path.write_bytes(data)


@needs_a_folder("copies files out of the store, for which buckets have the cache")
def test_a_copy_is_checked_when_it_is_fetched_and_dropped_when_it_rots(folder: Path) -> None:
    keys = [f"key {number}" for number in range(1000)]
    store = gowk.Store.create(store_in(folder), shards=2, capacity=10_000, slots_per_bucket=2, seed=7, counting=True)
    store.insert_many(keys)
    store.compact(all=True)
    file, disk = store.files[0], Disk(folder / "disk", 1 << 30)
    copy, good = disk.copies / file.name, file.path.read_bytes()
    # The bytes received differ from the bytes sent.
    rot(file.path)
    assert disk.fetch(file) == 0 and not copy.exists() and not list((disk.root / "fetching").iterdir())
    file.path.write_bytes(store.files[1].path.read_bytes())
    assert disk.fetch(file) == 0 and not copy.exists()
    file.path.write_bytes(good)
    assert disk.fetch(file) == file.bytes and disk.fetch(file) == 0
    # The copy is damaged on the disk. The store's own file answers, and the copy is fetched again.
    rot(copy)
    near = gowk.Store(store.path, copies=disk.copies, on_damage="present")
    assert near.contains_many(keys).all() and near.contains_many(f"other {key}" for key in keys).sum() < 10
    with near.update() as update:
        assert not update.remove_many(["another"]).any()
    assert near.take_refused_copies() == [copy] and near.take_refused_copies() == []
    disk.drop(copy)
    assert disk.fetch(file) == file.bytes
    # Another file of the same length.
    copy.write_bytes(bytes(file.bytes))
    assert disk.fetch(file) == file.bytes and copy.read_bytes() == good


@needs_spark
@needs_a_folder("copies files out of the store, for which buckets have the cache")
def test_a_task_leaves_a_rotten_copy_and_fetches_the_next(folder: Path) -> None:
    keys = [f"key {number}" for number in range(1000)]
    store = gowk.Store.create(store_in(folder), shards=1, capacity=10_000, slots_per_bucket=2, seed=7)
    store.insert_many(keys)
    store.compact(all=True)
    plan = _tasks.Plan(str(store.path), 3, str(folder), 1 << 30, True, "test")
    file, asked = store.files[0], pa.array([*keys, "another"])
    copy = plan.disk().copies / file.name
    for work in (lambda: _tasks.unseen(plan, iter([(pa.array(range(1001)), asked)])), lambda: _tasks.seen(plan, iter([asked]))):
        plan.disk().fetch(file)
        rot(copy)
        (answers,) = work()
        assert len(set(answers.to_pylist()[:1000])) == 1 and answers[0].as_py() != answers[1000].as_py()
        assert not copy.exists()
    assert _tasks.Shard(plan).found(asked).sum() == 1000 and copy.read_bytes() == file.path.read_bytes()


def test_a_local_folder_that_others_may_have_filled_is_refused(folder: Path) -> None:
    own = Disk.own(folder / "a" / "own", 1).root
    assert own.stat().st_mode & 0o777 == 0o700 and Disk.own(own, 1).root == own
    everybodys, link = folder / "everybodys", folder / "link"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    link.symlink_to(own)
    planted = [everybodys, link]
    if os.geteuid() == 0:
        planted.append(folder / "nobodys")
        planted[-1].mkdir()
        os.chown(planted[-1], 65534, 65534)
    for path in planted:
        with pytest.raises(PermissionError, match="local="):
            Disk.own(path, 1)


@needs_a_folder("copies files out of the store, for which buckets have the cache")
def test_local_disks_keep_no_more_than_they_are_told_to(folder: Path) -> None:
    store = gowk.Store.create(store_in(folder), shards=4, capacity=10_000, slots_per_bucket=2, seed=7)
    store.insert_many([f"key {number}" for number in range(1000)])
    store.compact(all=True)
    files = list(store.files.values())
    size = files[0].bytes
    disk = Disk(folder / "disk", 2 * size)
    assert [disk.fetch(files[index]) for index in (0, 1, 0)] == [size, size, 0]
    os.utime(disk.copies / files[1].name, (1, 1))
    assert disk.fetch(files[2]) == size
    assert {path.name for path in disk.copies.iterdir()} == {files[0].name, files[2].name}
    # A partial copy is made again.
    os.truncate(disk.copies / files[0].name, 100)
    assert disk.fetch(files[0]) == size
    assert gowk.Store("store", copies=disk.copies).contains_many([f"key {number}" for number in range(1000)]).all()
    assert Disk(folder / "small", size - 1).fetch(files[0]) == 0 and not (folder / "small").exists()
    # A killed process leaves half of a copy, and a folder with a working copy.
    code = (
        "import gowk, os, shutil, signal; from pathlib import Path; from gowk._disk import Disk\n"
        f"disk = Disk(Path({str(disk.root)!r}), {2 * size})\n"
        "with disk.scratch() as folder:\n"
        "    (folder / 'draft').write_text('x')\n"
        "    shutil.copyfileobj = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"    disk.fetch(gowk.Store('store').files[{files[3].shard}])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert len(list((disk.root / "scratch").iterdir())) == 2 and len(list((disk.root / "fetching").iterdir())) == 1
    with disk.scratch() as mine, disk.scratch() as another:
        assert {path.stem for path in (disk.root / "scratch").iterdir()} == {mine.name, another.name}
    assert not list((disk.root / "scratch").iterdir())
    assert disk.fetch(files[1]) == size and not list((disk.root / "fetching").iterdir())


@needs_spark
def test_nulls_binary_keys_expressions_and_the_order_among_equal_keys(spark: SparkSession, folder: Path) -> None:
    store = create(folder)
    rows = [("A", 3), ("a", 1), (None, 0), ("b", 2), ("B", 1), ("a", 2)]
    df = spark.createDataFrame(rows, "key string, at int").repartition(2)
    new = store.unseen(df, sf.lower("key"), application="night", batch=0, order_by=sf.desc("at"))
    assert sorted((row.key, row["at"]) for row in new.collect()) == [("A", 3), ("b", 2)]
    assert store.insert(df, sf.lower("key"), application="night", batch=0).outcome == "new"
    binary = df.select(sf.col("key").cast("binary").alias("key"))
    marked = {None if row.key is None else bytes(row.key): row.seen for row in store.mark(binary, "key").collect()}
    assert marked == {b"A": False, b"B": False, b"a": True, b"b": True, None: False}
    store.register("seen", spark)
    assert spark.sql("SELECT seen('a'), seen('A'), seen(NULL)").collect()[0][:] == (True, False, False)
    with pytest.raises(TypeError, match=r"store (s3:/)?/.*: keys are strings or binary, and 'at' is int: cast it"):
        store.unseen(df, "at", application="night", batch=1)


@needs_spark
def test_equal_keys_are_found_by_themselves_whatever_the_order_and_the_plan(spark: SparkSession, folder: Path) -> None:
    # Such a filter has many false positives, but it is still empty.
    store = create(folder, slots_per_bucket=7)
    exact = sorted(f"key {number}" for number in range(20_000))
    df = frame(spark, [*exact, *exact[:5000], *exact[:100] * 20])
    for _ in range(3):
        shuffled = df.orderBy(sf.rand())
        assert keys(store.unseen(shuffled, "value", application="night", batch=0).collect()) == exact
    # Plans without an order of the rows.
    new = store.unseen(df, "value", application="night", batch=0)
    assert new.count() == new.repartition(3).count() == new.groupBy("value").count().count() == len(exact)
    # Runs of equal keys that are longer than an Arrow batch.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 7)
    few = frame(spark, exact[:50] * 10)
    assert keys(store.unseen(few, "value", application="night", batch=0).collect()) == exact[:50]
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@needs_spark
def test_keys_in_another_order_are_refused(folder: Path) -> None:
    first = _tasks.FirstOfEach()
    keys = pa.array(["a", "a", "b"])
    assert first.among(np.array([1, 1, 2]), keys).tolist() == [True, False, True]
    assert first.among(np.array([2, 2, 3]), pa.array(["b", "c", "d"])).tolist() == [False, True, True]
    assert first.among(np.array([], np.int64), pa.array([], pa.string())).tolist() == []
    for hashes in ([4, 3, 5], [2, 3, 4]):
        with pytest.raises(ValueError, match="another order than that of their hashes"):
            first.among(np.array(hashes), keys)


@needs_spark
def test_copies_are_removed_one_by_one(spark: SparkSession, folder: Path) -> None:
    store = create(folder, slots_per_bucket=2, counting=True)
    store.insert(frame(spark, ["a", "a", "b"]), "value", application="night", batch=0)
    store.remove(frame(spark, ["a", "b", "c"]), "value", application="night", batch=1)
    assert gowk.Store(store.path).count_many(["a", "b", "c"]).tolist() == [1, 0, 0]
    # A batch that changes no key is committed all the same, and no file is written.
    files = files_in(store)
    assert store.remove(frame(spark, ["c"]), "value", application="night", batch=2).version == 4
    assert files_in(store) == files
    # A key that is found is counted.
    assert store.insert(frame(spark, ["a"]), "value", application="night", batch=3).version == 5
    assert gowk.Store(store.path).count("a") == 2


@needs_spark
def test_a_set_refuses_removal_and_is_not_written_for_keys_it_has(spark: SparkSession, folder: Path) -> None:
    store = create(folder)
    store.insert(frame(spark, ["a", "b"]), "value", application="night", batch=0)
    files = files_in(store)
    with pytest.raises(gowk.WrongKind, match="is a set, but removing keys needs a counting filter"):
        store.remove(frame(spark, ["c"]), "value", application="night", batch=1)
    assert gowk.Store(store.path).version == 2
    assert store.insert(frame(spark, ["a", "a"]), "value", application="night", batch=1).version == 3
    assert files_in(store) == files and gowk.Store(store.path).count("a") == 1


@needs_spark
@pytest.mark.parametrize("refresh", [False, True])
def test_a_store_forgets_by_the_time_of_each_batch(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, refresh: bool
) -> None:
    """Batches of past days, so that executors whose clocks are right take them; an exact model with epochs of two days."""
    day, epoch, kept = 86_400_000, 2 * 86_400_000, 28 * 86_400_000
    start = (int(time.time()) * 1000 // epoch - 60) * epoch + 12_345
    store = create(folder, slots_per_bucket=2, forget_after=28 * 86_400, refresh=refresh)
    # The driver's clock; a batch that was committed has its own.
    real, days = _tasks.time_of_update, 0

    def time_of_update(before: gowk.Store) -> int | None:
        try:
            told = real(before)
        except gowk.WrongClock:
            told = None
        return start + days * day if told is None or told > start + 61 * day else told

    monkeypatch.setattr(_tasks, "time_of_update", time_of_update)
    expiries: dict[str, int] = {}
    for batch, days in enumerate([0, 1, 13, 27, 29, 30, 31, 45, 58, 59, 60]):
        # A third comes each time, a third every other time, and the last third once.
        values = [f"{number}" if number % 3 == 0 or number % 3 == batch % 2 + 1 else f"{batch} {number}" for number in range(300)]
        # All earlier keys come again: on day 13 none of them is new, and no task finds a new key.
        values = sorted(expiries) if days in (13, 31) else values
        now = start + days * day
        expected = sorted(value for value in values if expiries.get(value, 0) <= now // epoch)
        for value in expected if not refresh else values:
            expiries[value] = -(-(now + kept) // epoch)
        df = frame(spark, values)
        new = store.unseen(df, "value", application="night", batch=batch)
        assert keys(new.collect()) == expected, f"day {days}"
        assert store.insert(df, "value", application="night", batch=batch).outcome == "new"
        if batch % 4 == 3:
            days += 20
            again = gowk.spark.SparkStore(store.path).unseen(df, "value", application="night", batch=batch)
            assert keys(again.collect()) == expected, f"day {days}, again"


@needs_spark
def test_each_key_is_kept_for_its_own_lifetime(spark: SparkSession, folder: Path) -> None:
    day = 86_400
    store = create(folder, slots_per_bucket=2, forget_after=30 * day)
    df = spark.createDataFrame([("short", float(day)), ("long", 30.0 * day), (None, 1.0)], "value string, ttl double")
    store.insert(df, "value", application="night", batch=0, lifetime="ttl")

    def found(days: int) -> list[bool]:
        at = datetime.now(UTC) + timedelta(days=days)
        return gowk.Store(store.path).contains_many(["short", "long"], at=at).tolist()

    # A lifetime ends at most 15 days late: half of `forget_after`.
    assert found(0) == [True, True] and found(20) == [False, True]
    # A second insert prolongs the time of a key that is there, and never shortens it.
    intervals = spark.sql("SELECT value, make_dt_interval(days) AS ttl FROM VALUES ('short', 30), ('long', 1) AS t(value, days)")
    store.insert(intervals, "value", application="night", batch=1, lifetime="ttl")
    assert found(20) == [True, True]
    with pytest.raises(PySparkException, match=r"lifetimes\[0\] is nan seconds"):
        store.insert(spark.sql("SELECT 'a' AS value, CAST(NULL AS DOUBLE) AS ttl"), "value", application="night", batch=2, lifetime="ttl")
    with pytest.raises(PySparkException, match="a lifetime is a number of seconds or an interval"):
        store.insert(spark.sql("SELECT 'a' AS value, 'day' AS ttl"), "value", application="night", batch=2, lifetime="ttl")
    keeps = create(folder / "keeps", slots_per_bucket=2)
    with pytest.raises(PySparkException, match="the option lifetime is for inserts into a store that forgets"):
        keeps.insert(df, "value", application="night", batch=0, lifetime="ttl")
    assert gowk.Store(store.path).version == 3 and gowk.Store(keeps.path).version == 1


@needs_spark
def test_few_keys_go_into_one_run_and_many_rewrite_their_shard(spark: SparkSession, folder: Path) -> None:
    store = create(folder, 4)
    every = [f"key {number}" for number in range(60_000)]
    shards = gowk.Store(store.path).shards_of(every)
    many = [key for key, shard in zip(every, shards, strict=True) if shard == 2]
    few = [key for key, shard in zip(every[:300], shards, strict=False) if shard != 2]
    assert len(many) > 12_288
    store.insert(frame(spark, [*many, *few]), "value", application="night", batch=0)
    opened = gowk.Store(store.path)
    info, run = opened.info(), store_runs(store)
    assert (opened.version, list(opened.files), info.runs, info.pending) == (2, [2], 1, len(few))
    # Three tasks have each left the run that they sealed.
    assert len(run) == 4 and len(run & named_in(store, 2)) == 1
    assert opened.contains_many([*many, *few]).all()
    assert keys(store.unseen(frame(spark, [*many, *few, "new"]), "value", application="night", batch=1).collect()) == ["new"]
    # The file of a shard stays the same, so that the copy on a local disk does.
    before = opened.files[2]
    some = [key for key, shard in zip(every, shards, strict=True) if shard != 2][1000:1200]
    store.insert(frame(spark, [*some, *new_of(opened, 2)]), "value", application="night", batch=1)
    opened.reload()
    assert opened.files[2] == before and opened.info().runs == 2 and opened.contains_many(new_of(opened, 2)).all()


def store_runs(store: gowk.spark.SparkStore) -> set[str]:
    return {name for name in files_in(store) if name.endswith(".run")}


@needs_spark
def test_shards_are_folded_by_tasks_once_it_is_due(spark: SparkSession, folder: Path) -> None:
    store = create(folder, 2)
    for batch in range(4):
        values = [f"key {number}" for number in range(5000 * batch, 5000 * (batch + 1))]
        store.insert(frame(spark, values), "value", application="night", batch=batch)
    opened = gowk.Store(store.path)
    operations = [version.operation for version in opened.log()]
    # A shard is due between 4096 and 8192 records, and each batch brings some 2500.
    assert operations.count("insert") == 4 and 1 <= operations.count("fold") <= 4, operations
    assert sorted(opened.files) == [0, 1] and opened.to_fold() == []
    assert opened.contains_many([f"key {number}" for number in range(20_000)]).all()
    logs = spark.tvf.python_worker_logs().where("logger = 'gowk.spark' AND msg LIKE '%folded%'").select("msg").collect()
    assert {row.msg.split(":")[0] for row in logs} >= {"shard 0", "shard 1"}
    # Nothing is due, and everything can be folded.
    assert store.compact(spark) == gowk.CompactReport(version=None, folded=0, full=0, bytes=0)
    store.insert(frame(spark, [f"other {number}" for number in range(50)]), "value", application="night", batch=4)
    told = store.compact(spark, all=True)
    opened.reload()
    assert (told.version, told.folded, told.full) == (opened.version, 2, 0) and opened.info().runs == 0
    assert told.bytes == sum(file.bytes for file in opened.files.values())
    assert is_tidy_after_a_vacuum(store)


@needs_spark
def test_jobs_are_described_in_the_ui(spark: SparkSession, folder: Path) -> None:
    store, context = create(folder, 2), spark.sparkContext
    context.setJobDescription("of the caller")
    store.insert(frame(spark, [f"key {number}" for number in range(50)]), "value", application="night", batch=7)
    store.compact(spark, all=True)
    assert context.getLocalProperty("spark.job.description") == "of the caller"
    context.setJobDescription(None)
    jobs = context._jsc.sc().statusStore().jobsList(None)
    all_told = [jobs.apply(at).description() for at in range(jobs.size())]
    told = {description.get() for description in all_told if description.isDefined()}
    assert f"gowk: insert, batch 7 of 'night', store {store.path}" in told, told
    assert f"gowk: fold 2 shards, store {store.path}" in told, told


@needs_spark
def test_what_kills_a_fold_changes_nothing(spark: SparkSession, folder: Path) -> None:
    every = [f"{who} {when} folding" for who in ("executor killed", "task raises") for when in ("before", "while", "after")]
    # A thread beside a task raises for itself.
    every.remove("task raises while folding")
    store, inserted = create(folder), list[str]()
    for turn in range(ROUNDS):
        for number, fault in enumerate(every):
            values = [f"key {turn} {number} {key}" for key in range(8000)]
            store.insert(frame(spark, values), "value", application="night", batch=turn * len(every) + number)
            inserted += values
            faults.set_fault(fault)
            told = store.compact(spark, all=True)
            assert not faults.is_pending(fault), f"never came to this: {fault}"
            opened = gowk.Store(store.path)
            assert told.folded == 4 and opened.info().pending == 0 and opened.info().entries == len(inserted), fault
            assert opened.contains_many(inserted).all(), fault
            assert all(report.is_clean for report in opened.verify().values())  # type: ignore[union-attr]
    assert is_tidy_after_a_vacuum(store)
    # A fold that fails for good is told, and loses nothing.
    store.insert(frame(spark, ["another"]), "value", application="night", batch=1000)
    (folder / "file").touch()
    with pytest.raises(PySparkException, match="compact, shard . of store"):
        gowk.spark.SparkStore(store.path, local=folder / "file").compact(spark, all=True)
    assert gowk.Store(store.path).contains_many(["another", *inserted]).all()


@needs_spark
def test_folds_leave_out_shards_that_others_rewrote_and_report_full_ones(spark: SparkSession, folder: Path) -> None:
    store, values = create(folder), [f"key {number}" for number in range(2000)]
    store.insert(frame(spark, values), "value", application="night", batch=0)
    mine, other = gowk.Store(store.path), gowk.Store(store.path)
    folds = [fold for fold in (mine.fold(shard) for shard in range(4)) if fold is not None]
    with other.update(rewriting=True) as update:
        update.update(new_of(other, 1))
    assert mine.commit_folds(folds).folded == 3
    assert mine.contains_many([*values, *new_of(other, 1)]).all() and mine.info().entries == 2000 + len(new_of(other, 1))
    # In a shard that must not grow, records find room where its filter has none.
    (folder / "small").mkdir()
    small = gowk.Store.create(store_in(folder / "small"), shards=1, capacity=300, slots_per_bucket=2, growth="never")
    small.insert_many([f"key {number}" for number in range(14_000)])
    small.insert_many([f"key {number}" for number in range(14_000, 18_000)])
    told = gowk.spark.SparkStore(small.path).compact(spark, all=True)
    assert (told.version, told.folded, told.full) == (None, 0, 1)
    small.reload()
    assert small.info().pending > 3900 and small.contains_many([f"key {number}" for number in range(18_000)]).all()


@needs_spark
def test_another_application_between_unseen_and_insert_is_a_conflict(spark: SparkSession, folder: Path) -> None:
    store = create(folder, 1)
    new = store.unseen(frame(spark, ["a", "b"]), "value", application="night", batch=0)
    assert keys(new.collect()) == ["a", "b"]
    gowk.Store(store.path).insert_many(["b", "c"], token=("day", 1))
    with pytest.raises(PySparkException, match="Conflict") as caught:
        store.insert(frame(spark, ["a", "b"]), "value", application="night", batch=0)
    assert f"gowk: batch 0 of 'night', store {store.path}" in caught.value.__notes__
    # The insert alone would leave "b" new to both.
    with pytest.raises(PySparkException, match="Conflict"):
        store.insert(frame(spark, ["a", "b"]), "value", application="night", batch=0)
    assert gowk.Store(store.path).version == 2
    # With other keys there is none: a run is put on top of another.
    other = gowk.spark.SparkStore(store.path)
    assert keys(other.unseen(frame(spark, ["x"]), "value", application="evening", batch=0).collect()) == ["x"]
    gowk.Store(store.path).insert_many(["y"])
    assert other.insert(frame(spark, ["x"]), "value", application="evening", batch=0).outcome == "new"
    # Repeated from unseen, no key is new to both.
    assert keys(store.unseen(frame(spark, ["a", "b"]), "value", application="night", batch=0).collect()) == ["a"]
    assert store.insert(frame(spark, ["a", "b"]), "value", application="night", batch=0).outcome == "new"


@needs_spark
def test_the_data_source_refuses_what_it_cannot_do_right(spark: SparkSession, folder: Path) -> None:
    store = create(folder)
    df = frame(spark, [f"key {number}" for number in range(100)])
    spark.dataSource.register(gowk.spark.Source)

    def save(df: DataFrame, mode: str = "append", **options: Any) -> None:
        df.write.format("gowk").mode(mode).options(**options).save(store.path)

    for words, refused in [
        (r"keys of shards \d and \d: call by_shard", lambda: save(df)),
        ("no option 'colum'", lambda: save(df, colum="value")),
        ("the mode is append", lambda: save(df, "overwrite")),
        ("insert or remove, not 'upsert'", lambda: save(df, change="upsert")),
        ("is a set, but removing keys needs", lambda: save(df, change="remove")),
        ("given together, or neither", lambda: save(df, batch=3)),
        ("which of the columns value, n", lambda: save(df.withColumn("n", sf.lit(1)))),
        ("no column 'url', only value", lambda: save(df, column="url")),
        ("keys are strings or binary", lambda: save(df.select(sf.lit(1).alias("n")))),
    ]:
        with pytest.raises(PySparkException, match=words):
            refused()
    assert gowk.Store(store.path).version == 1
    save(store.by_shard(df.withColumn("n", sf.lit(1)), "value"), column="value", application="night", batch=1, state="x")
    opened = gowk.Store(store.path)
    assert opened.tokens["night"].state == "x" and opened.contains_many(df.toPandas()["value"].to_numpy(object)).all()
    assert np.all(opened.at(1).contains_many(["key 1"]) == [False])
