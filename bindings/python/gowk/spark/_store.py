"""The calls of a Spark driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast
from uuid import uuid4
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, BooleanType, DataType, IntegerType, StringType

from .. import CompactReport, Error, Invalid, Sealed, StoreCommit, VacuumReport
from .. import Store as Files
from .._disk import log
from . import _tasks
from ._source import LOCAL_BYTES, Change, Source, check_counting
from ._tasks import Array, Plan

_registered: WeakSet[SparkSession] = WeakSet()


class SparkStore:
    """A store of gowk, for a Spark driver.

    The store must exist: ``gowk.Store.create(path, shards=..., capacity=...)``. It lies in a bucket, or in a folder that
    the driver and all executors reach by the same path. gowk must be installed on all of them.

    A forgetting store judges a whole batch by one time: the driver's clock when ``unseen`` was called. So no key of a
    batch is new to one call and known to the next because it expired between them.

    Rows whose key is null have no key: ``unseen`` drops them, ``insert`` and ``remove`` skip them, and ``mark`` has False.

    Args:
        path: the store's folder, or its address: ``"s3://bucket/prefix"``, ``"gs://bucket/prefix"`` or
            ``"az://container/prefix"``.
        local: a folder on each executor's local disk. Its subfolder ``gowk`` keeps copies of shards, also for later jobs
            and applications. Unless given, Spark's own folder for temporary files, which is emptied when the executor
            ends.
        local_bytes: the most bytes of copies to keep there; the least recently used copies are removed first. Working
            copies and runs of tasks are not counted.
        fetch: whether tasks copy their shard to the local disk before they look keys up. If False they read the store's
            own file, which is right if the store lies on a local disk. Shards of a store in a bucket are always copied.

    Raises:
        gowk.NotFound: the path does not exist.
        gowk.Foreign: there is no store at the path.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, local: str | os.PathLike[str] | None = None, local_bytes: int = LOCAL_BYTES, fetch: bool = True
    ) -> None:
        store = Files(path)
        self.path = str(store.path)
        self._local = None if local is None else os.path.abspath(os.fspath(local))
        # The library itself keeps copies of a store in a bucket.
        self._local_bytes, self._fetch = local_bytes, fetch and isinstance(store.path, Path)
        # The version that `unseen` read for a batch, and the time that it judged by. They stay after a conflict: if the
        # insert used a newer version, a key could be new to two applications.
        self._bases: dict[tuple[str, int], tuple[int, int | None]] = {}

    def __repr__(self) -> str:
        return f"gowk.spark.SparkStore({self.path!r})"

    def unseen(
        self,
        df: DataFrame,
        column: str | Column,
        *,
        application: str,
        batch: int,
        order_by: str | Column | list[str | Column] | None = None,
    ) -> DataFrame:
        """The rows whose key no earlier batch had; one row of each key.

        The keys are looked up in the version before the token of this application and batch. So a repeated batch gets the
        same keys again, even after its insert. Nothing is changed: the call may be repeated, and its result may be
        computed any number of times. A key that is not new is never returned. A new key is left out at the store's false
        positive rate; a repeated batch leaves out the same keys. Equal keys within the batch are compared byte by byte.

        Args:
            df: the batch.
            column: the column with the keys, of strings or binary values; or an expression for them.
            application: the name of the sequence of batches, as for :meth:`insert`.
            batch: the number of the batch, as for :meth:`insert`.
            order_by: of rows with equal keys, the first in this order is returned. Without it, or if rows are equal in
                this order too, any of them is returned, and a repeated task may return another.

        Raises:
            TypeError: the keys are neither strings nor binary values.
            gowk.NotFound: the batch is repeated after a later one, and the version before it was vacuumed.
        """
        version, time = self._before(application, batch)
        plan = self._plan(version, f"unseen of batch {batch} of {application!r}", time)
        self._bases[application, batch] = version, time

        def is_new(rows: Iterator[tuple[Array, Array]]) -> Iterator[Array]:
            return _tasks.unseen(plan, rows)

        # The answer does not depend on the key alone: Spark must neither move the function before other filters nor
        # evaluate it twice.
        judge = _udf(is_new, BooleanType()).asNondeterministic()
        key, name = _key(df, column, self.path), f"gowk_hash_{uuid4().hex}"
        # Sorting brings equal keys together, in whatever order the shuffle delivers them. Spark compares hashes as
        # numbers, and only keys with equal hashes by their bytes: a collation may call different keys equal.
        divided = self.by_shard(df, column).withColumn(name, sf.xxhash64(key.cast("binary")))
        columns = order_by if isinstance(order_by, list) else [] if order_by is None else [order_by]
        divided = divided.sortWithinPartitions(name, key.cast("binary"), *columns)
        return divided.where(judge(sf.col(name), key)).drop(name)

    def insert(
        self,
        df: DataFrame,
        column: str | Column,
        *,
        application: str,
        batch: int,
        state: str = "",
        lifetime: str | Column | None = None,
    ) -> StoreCommit:
        """Stores the keys of a batch in one version, exactly once, however often it is tried.

        Before this call, write the rows that :meth:`unseen` returned to an idempotent sink. In the opposite order, a
        sink that fails after the insert loses its rows, unless the batch is repeated.

        For a set it is enough to insert the keys of the rows that :meth:`unseen` returned, read back from the sink: the
        store has all other keys already. A counting store counts every row that it is given.

        Args:
            df: the batch.
            column: the column with the keys, or an expression for them.
            application: a name for the sequence of batches that this batch belongs to. A stream with a new checkpoint is
                a new sequence, and needs a new name.
            batch: the number of the batch, higher than the number of the application's last batch.
            state: a text that the application can read back with its last token.
            lifetime: of a forgetting store, the column with the time for which each key is kept from now on: seconds, or
                an interval. At most the store's ``forget_after``, and not null. A key keeps the latest of its times.

        A task with few keys writes them as records, and the commit merges the records of all tasks into one run. A task
        rewrites its shard if it has more than 8,192 to 12,288 keys, and more than a sixteenth to a tenth of the shard's
        entries: the factor differs from shard to shard, so that they are not all rewritten at once. After the commit,
        shards that are due are folded, as by :meth:`compact`. If that fails, the batch is committed all the same, and the
        next batch tries again.

        Returns:
            The outcome. ``"already"``: the batch was committed before.

        Raises:
            TypeError: the keys are neither strings nor binary values.
            gowk.Invalid: a later batch of the application was committed before, so that this one would be lost.
            PySparkException: the job failed, and nothing was committed. If its text names ``Conflict``, another application
                has, since ``unseen`` judged this batch, committed one of its keys, or changed a shard that this batch
                rewrites: repeat the batch from ``unseen``. The insert alone fails again.
        """
        return self._write(df, column, "insert", application, batch, state, lifetime)

    def remove(
        self, df: DataFrame, column: str | Column, *, application: str, batch: int, state: str = ""
    ) -> StoreCommit:
        """Removes one copy of each key from a counting store, in one version, exactly once. Otherwise like :meth:`insert`.

        Remove only keys that were inserted: any other key may match the entry of a stored key, and remove it.

        Raises:
            gowk.WrongKind: the store is a set.
        """
        check_counting(Files(self.path))
        return self._write(df, column, "remove", application, batch, state)

    def compact(self, spark: SparkSession | None = None, *, all: bool = False) -> CompactReport:
        """Folds the records of runs into the files of the shards: a task for each shard, and one commit.

        :meth:`insert` and :meth:`remove` fold the shards that are due. Call this after writing to the data source
        directly, or with ``all`` before much reading. It may run beside batches: if another process rewrites a shard
        during the call, that file is kept instead of the folded one. If it fails or is killed, the store stays as it was.
        Old files stay until a vacuum.

        Args:
            spark: the session, the active one unless given.
            all: fold every shard that has a record in a run, not only shards that are due.

        Raises:
            PySparkException: the job failed, and nothing was folded.
        """
        spark = spark or SparkSession.getActiveSession()
        if spark is None:
            raise ValueError(f"store {self.path}: there is no active Spark session to compact it with")
        store = Files(self.path)
        shards = store.to_fold(all=all)
        if not shards:
            return store.commit_folds([])
        rows = spark.createDataFrame(list(enumerate(shards)), "task int, shard int").repartitionById(len(shards), "task")
        with _described(spark, f"fold {len(shards)} shards, store {self.path}"):
            folds = rows.mapInArrow(self._folding(self._plan(store.version, "compact")), "shard int, sealed string").collect()
        sealed = [Sealed.from_json(fold.sealed) for fold in folds if fold.sealed is not None]
        return replace(store.commit_folds(sealed), full=len(folds) - len(sealed))

    def vacuum(self, *, keep: int = 1, grace: float = 86400.0) -> VacuumReport:
        """Removes old versions, and files that only they name, on the driver; see :meth:`gowk.Store.vacuum`."""
        return Files(self.path).vacuum(keep=keep, grace=grace)

    def mark(self, df: DataFrame, column: str | Column, name: str = "seen") -> DataFrame:
        """Adds a boolean column that says whether the newest version of the store, as of this call, has the row's key.

        There is no shuffle: each executor looks into all shards, so the store should fit its local disk.

        Args:
            df: any rows.
            column: the column with the keys, of strings or binary values; or an expression for them.
            name: the name of the new column.
        """
        return df.withColumn(name, self._seen()(_key(df, column, self.path)))

    def register(self, name: str = "gowk_seen", session: SparkSession | None = None) -> None:
        """Registers :meth:`mark` as a function of SQL: ``SELECT * FROM pages WHERE NOT gowk_seen(url)``.

        The function looks into the version that is newest at this call. Register it again to move to a newer version.

        Args:
            name: the name of the function.
            session: the session that gets it, the active one unless given.
        """
        session = session or SparkSession.getActiveSession()
        if session is None:
            raise ValueError(f"store {self.path}: there is no active Spark session to register {name} in")
        session.udf.register(name, self._seen())

    def each_batch(
        self,
        application: str,
        write: Callable[[DataFrame, int], object],
        *,
        column: str | Column,
        order_by: str | Column | list[str | Column] | None = None,
        lifetime: str | Column | None = None,
        persist: bool = True,
    ) -> Callable[[DataFrame, int], None]:
        """For ``stream.writeStream.foreachBatch``: hands the unseen rows of each batch to ``write``, and then inserts its keys.

        Args:
            application: a name for this query and checkpoint only. A query with another checkpoint is refused under this
                name: its batches count from 0 again, so its keys would seem to be committed already.
            write: called with the unseen rows and the number of the batch. It must replace the rows that it wrote for
                the same number before: after a failure a batch is repeated, with the same keys.
            column: the column with the keys, or an expression for them.
            order_by: see :meth:`unseen`.
            lifetime: see :meth:`insert`.
            persist: keep the batch while it is used twice. Without it, it is read twice.

        >>> stream.writeStream.option("checkpointLocation", "/data/checkpoint").foreachBatch(   # doctest: +SKIP
        ...     store.each_batch("crawl", lambda new, batch: new.write.mode("overwrite").parquet(f"/data/new/batch={batch}"), column="url")
        ... ).start()
        """

        def batch_of_stream(df: DataFrame, batch: int) -> None:
            if persist:
                df = df.persist()
            try:
                state = self._sequence(df, column, application, batch)
                rows = self.unseen(df, column, application=application, batch=batch, order_by=order_by)
                write(rows, batch)
                self.insert(df, column, application=application, batch=batch, state=state, lifetime=lifetime)
            finally:
                if persist:
                    df.unpersist()

        return batch_of_stream

    def by_shard(self, df: DataFrame, column: str | Column) -> DataFrame:
        """The rows with a key, in one partition for each shard, as the data source ``gowk`` needs them."""
        plan = self._plan(Files(self.path).version, "by_shard")

        def shard(keys: Array) -> Array:
            return _tasks.shards(plan, keys)

        key, name = _key(df, column, self.path), f"gowk_shard_{uuid4().hex}"
        of_key = _udf(shard, IntegerType())
        rows = df.where(key.isNotNull()).withColumn(name, of_key(key))
        return rows.repartitionById(Files(self.path).shards, name).drop(name)

    def _before(self, application: str, batch: int) -> tuple[int, int | None]:
        """The version before the batch, and the time to judge the batch by."""
        with _noted(self.path, application, batch):
            before = Files(self.path).before(application, batch)
            return before.version, _tasks.time_of_update(before)

    def _plan(self, version: int, batch: str, time: int | None = None) -> Plan:
        return Plan(self.path, version, self._local, self._local_bytes, self._fetch, batch, time)

    def _folding(self, plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The function of the tasks of :meth:`compact`."""

        def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _tasks.folded(plan, batches)

        return fold

    def _keep_up(self, spark: SparkSession) -> None:
        """Folds the shards that are due after a commit. The commit has succeeded, whatever happens here."""
        try:
            self.compact(spark)
        except (PySparkException, Error) as error:
            log.warning("store %s: the batch is committed, but its shards were not folded: %s", self.path, error)

    def _seen(self) -> Any:
        plan = self._plan(Files(self.path).version, "mark")

        def seen(keys: Iterator[Array]) -> Iterator[Array]:
            return _tasks.seen(plan, keys)

        return _udf(seen, BooleanType())

    def _committed(self, application: str, batch: int, outcome: Literal["new", "already"]) -> StoreCommit | None:
        """The outcome of the commit with the token, if it was committed. A later token of the application is an error before
        the commit, and shows after it that the commit was made.
        """
        done = Files(self.path).tokens.get(application)
        if done is None or done.number < batch:
            return None
        if outcome == "already" and done.number > batch:
            raise Invalid(
                f"store {self.path}: nothing was changed: the last batch of {application!r} is {done.number}, above {batch}, and "
                f"batches ascend; a batch that is repeated comes too late; for new rows take a number above {done.number}, or "
                "another application name"
            )
        return StoreCommit(outcome=outcome, version=done.version, token=done if outcome == "already" else None)

    def _write(
        self,
        df: DataFrame,
        column: str | Column,
        change: Change,
        application: str,
        batch: int,
        state: str,
        lifetime: str | Column | None = None,
    ) -> StoreCommit:
        before = self._committed(application, batch, "already")
        if before is not None:
            self._bases.pop((application, batch), None)
            return before
        base, time = self._bases.get((application, batch)) or self._before(application, batch)
        key = _key(df, column, self.path)
        session = df.sparkSession
        if session not in _registered:
            session.dataSource.register(Source)
            _registered.add(session)
        options: dict[str, str | int] = {
            "change": change,
            "application": application,
            "batch": batch,
            "state": state,
            "base": base,
            "local_bytes": self._local_bytes,
            "fetch": str(self._fetch).lower(),
        }
        if time is not None:
            options["time"] = time
        if self._local is not None:
            options["local"] = self._local
        keys = df.select(key.alias("key"))
        if lifetime is not None:
            options |= {"column": "key", "lifetime": "lifetime"}
            keys = df.select(key.alias("key"), (sf.col(lifetime) if isinstance(lifetime, str) else lifetime).alias("lifetime"))
        work = f"{change}, batch {batch} of {application!r}, store {self.path}"
        with _noted(self.path, application, batch), _described(session, work):
            try:
                self.by_shard(keys, "key").write.format("gowk").mode("append").options(**options).save(self.path)
            except PySparkException:
                # A job may fail after its version was published.
                if self._committed(application, batch, "new") is None:
                    raise
                log.warning("store %s: batch %d of %r is committed, although Spark says that the job failed", self.path, batch, application)
        committed = self._committed(application, batch, "new")
        if committed is None:
            raise RuntimeError(f"store {self.path}: Spark has ended the job of batch {batch} of {application!r} without its commit")
        self._bases.pop((application, batch), None)
        self._keep_up(session)
        return committed

    def _sequence(self, df: DataFrame, column: str | Column, application: str, batch: int) -> str:
        """A text that identifies this sequence of batches, to be kept with the batch. Raises if the application's last batch
        belongs to another sequence.

        The text is the id of the query. Spark Connect does not show the id; there a new checkpoint is recognized by its
        batch 0, which is below the last committed batch or, if that is 0, has other keys. Spark repeats only the last
        batch.
        """
        query, done = _query_of(df), Files(self.path).tokens.get(application)
        state = f"query {query}" if query is not None else self._fingerprint(df, column) if batch == 0 else ""
        if done is None or not done.state and batch >= done.number:
            return state
        if query is not None and done.state.startswith("query "):
            other, why = done.state != state, f"is of {done.state}, and this is {state}"
        else:
            mine = state if query is None or batch != 0 else self._fingerprint(df, column)
            other = done.state != mine if batch == done.number == 0 else batch < done.number
            why = f"is committed, and this is another batch {batch}"
        if other:
            raise ValueError(
                f"store {self.path}: the last batch of {application!r}, {done.number}, {why}. "
                "A query with a new checkpoint counts its batches from 0, so it needs another application name"
            )
        return state

    def _fingerprint(self, df: DataFrame, column: str | Column) -> str:
        """A text that is the same for the same keys in any order."""
        hashed = sf.xxhash64(_key(df, column, self.path).cast("binary"))
        combined = df.select(hashed.alias("hash")).agg(sf.count("hash"), sf.bit_xor("hash"), sf.sum(sf.pmod("hash", sf.lit(1 << 31))))
        with _described(df.sparkSession, f"compare the keys of a new checkpoint, store {self.path}"):
            row = combined.collect()[0]
        return f"keys {row[0]} {row[1]} {row[2]}"


def _query_of(df: DataFrame) -> str | None:
    """The id of the streaming query that the batch belongs to."""
    try:
        query: str | None = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        return query
    except PySparkException:
        # Spark Connect does not show the id.
        return None


@contextmanager
def _described(session: SparkSession, work: str) -> Iterator[None]:
    """Describes the jobs inside it in Spark's UI. The description of the caller, or of its streaming query, comes back."""
    try:
        context = session.sparkContext
    except PySparkException:
        # Spark Connect has no descriptions.
        yield
        return
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(f"gowk: {work}")
    try:
        yield
    finally:
        # None takes it away; the type does not say so.
        context.setJobDescription(cast(str, before))


@contextmanager
def _noted(path: str, application: str, batch: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"gowk: batch {batch} of {application!r}, store {path}")
        if "No module named 'gowk" in str(error):
            error.add_note(
                "gowk: the Python of the tasks has no gowk: set PYSPARK_PYTHON, before the session begins, to one that has it on "
                f"every executor; here that is {sys.executable}"
            )
        raise


def _udf(function: Callable[..., Any], kind: DataType) -> Any:
    return arrow_udf(function, kind)  # type: ignore[call-overload, unused-ignore]


def _key(df: DataFrame, column: str | Column, path: str) -> Column:
    key = sf.col(column) if isinstance(column, str) else column
    kind = df.select(key).schema[0].dataType
    if not isinstance(kind, (StringType, BinaryType)):
        raise TypeError(f"store {path}: keys are strings or binary, and {column!r} is {kind.simpleString()}: cast it")
    return key
