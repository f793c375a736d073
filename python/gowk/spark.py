"""Spark over a store: which rows have a key that no earlier batch had, and a version of the store for each batch.

>>> store = gowk.spark.Store("/data/crawl.store")                     # doctest: +SKIP
>>> new = store.unseen(df, "url", application="crawl", batch=118)     # rows whose key is new; of equal keys one row
>>> new.write.mode("overwrite").parquet("/data/new/batch=118")        # an idempotent sink, first
>>> store.insert(df, "url", application="crawl", batch=118)           # then the keys: one version, exactly once
>>> store.mark(df, "url")                                             # a column `seen`; lookups only

Spark shuffles the keys by shard, schedules tasks and repeats those that fail. A task works on one shard. The driver publishes
one version for a batch, all or nothing. The store lies in a folder that the driver and all executors reach by the same path.

Invariants:

1. ``unseen`` judges by the version before the batch's transaction. So a task, a stage or a batch that is repeated finds the
   same keys new as the first time.
2. A task writes only files that no version names. One commit on the driver publishes them, and it carries the
   transaction, so that a repeated batch changes nothing.
3. Nothing here deletes a file of the store. What tasks leave that died or lost is removed by :meth:`gowk.Store.vacuum`.

``python/docs/spark.md`` says how to size a store and a cluster, and what to expect of retries.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from . import Distinct, Reader, Sealed, StoreCommit, Update
from . import Store as Files
from ._disk import Disk, log

try:
    import pyarrow as pa
    import pyspark
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import functions as sf
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import BinaryType, BooleanType, DataType, IntegerType, StringType, StructType
except ImportError as error:
    raise ImportError("gowk.spark needs pyspark 4.1 or later and pyarrow: pip install 'gowk[spark]'") from error
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 1):
    raise ImportError(f"gowk.spark needs pyspark 4.1 or later, and this is {pyspark.__version__}: pip install 'gowk[spark]'")

if TYPE_CHECKING:
    _Array = pa.Array[Any]
else:
    _Array = pa.Array

__all__ = ["Source", "Store"]

LOCAL_BYTES = 100 << 30
"""Bytes of copies of shards that an executor's local disk keeps, unless :class:`Store` is told otherwise: 100 GiB."""
NEW_KEYS = 1 << 20
"""Keys of a batch that are expected to be new in each shard, unless ``unseen`` is told otherwise."""
_KEPT = 4
"""Versions of stores that a process keeps open for ``mark``."""

_Change = Literal["update", "insert", "remove"]


@dataclass(frozen=True)
class _Plan:
    """What travels to the tasks: which version of which store they work on, and where they keep files."""

    path: str
    version: int
    local: str | None
    local_bytes: int
    fetch: bool
    batch: str
    """What is being done, for messages."""

    def disk(self) -> Disk:
        # Spark names the executor's folders for temporary files to its Python processes, and empties them at the end.
        ours = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
        return Disk(Path(self.local or ours) / "gowk", self.local_bytes)

    def open(self) -> Files:
        return Files(self.path, version=self.version, copies=self.disk().copies if self.fetch else None)

    @contextmanager
    def named(self, work: _Shard | None = None) -> Iterator[None]:
        """Adds to an exception what was being done."""
        try:
            yield
        except Exception as error:
            of_shard = "" if work is None or work.number is None else f"shard {work.number} of "
            error.add_note(f"gowk: {self.batch}, {of_shard}store {self.path}, version {self.version}")
            raise


# What runs in tasks. Keys stay in the memory that Arrow has put them in; answers are NumPy arrays.


class _Shard:
    """The one shard that the keys of a task belong to, as of the version that the task works on."""

    def __init__(self, plan: _Plan, stack: ExitStack) -> None:
        self.plan, self.stack = plan, stack
        self.store = plan.open()
        self.number: int | None = None
        self.fetched = 0
        self.reader: Reader | None = None
        self.scratch: Path | None = None

    def found(self, keys: _Array) -> NDArray[np.bool_]:
        """Which keys the version has; none of them may be null."""
        self._check(keys)
        return np.zeros(len(keys), np.bool_) if self.reader is None else self.reader.contains_many(keys)

    def _check(self, keys: _Array) -> None:
        shards = self.store.shards_of(keys)
        if self.number is None and len(shards):
            self._open(int(shards[0]))
        others = shards[shards != self.number]
        if len(others):
            raise ValueError(f"a task got keys of shards {self.number} and {others[0]}: call by_shard() right before it")

    def _open(self, number: int) -> None:
        self.number = number
        disk, file = self.plan.disk(), self.store.files.get(number)
        self.scratch = self.stack.enter_context(disk.scratch())
        if file is not None and self.plan.fetch:
            self.fetched = disk.fetch(file)
        self.reader = self.store.shard(number)


def _unseen(plan: _Plan, new_keys: int, batches: Iterator[_Array]) -> Iterator[_Array]:
    """Of each key, whether it is new: neither in the version nor earlier in this task."""
    with ExitStack() as stack:
        shard = _Shard(plan, stack)
        distinct: Distinct | None = None
        for keys in batches:
            with plan.named(shard):
                new = ~shard.found(keys)
                if new.any():
                    if distinct is None:
                        distinct = stack.enter_context(shard.store.distinct(new_keys, folder=shard.scratch))
                    new[new] = distinct.update_new(keys.filter(pa.array(new)))
            yield pa.array(new)


_kept: OrderedDict[_Plan, Files] = OrderedDict()


def _open_kept(plan: _Plan) -> Files:
    """The version, as this process keeps it open from task to task."""
    store = _kept.pop(plan, None) or plan.open()
    _kept[plan] = store
    if len(_kept) > _KEPT:
        _kept.popitem(last=False)
    return store


def _seen(plan: _Plan, batches: Iterator[_Array]) -> Iterator[_Array]:
    """Of each key, whether the version has it, whatever its shard."""
    with plan.named():
        store, disk = _open_kept(plan), plan.disk()
    fetched: set[int] = set()
    for keys in batches:
        with plan.named():
            if plan.fetch:
                for shard in set(np.unique(store.shards_of(keys)).tolist()) & store.files.keys() - fetched:
                    disk.fetch(store.files[shard])
                    fetched.add(shard)
            yield pa.array(store.contains_many(keys))


def _shards(plan: _Plan, keys: _Array) -> _Array:
    with plan.named():
        return pa.array(_open_kept(plan).shards_of(keys))


# The data source that `insert` and `remove` write to.


@dataclass
class _Written(WriterCommitMessage):
    """What a task tells the driver."""

    sealed: list[str]
    keys: int
    fetched: int


@dataclass(frozen=True)
class _Writer(DataSourceArrowWriter):
    plan: _Plan
    change: _Change
    transaction: tuple[str, int, str] | None
    column: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:  # type: ignore[override, unused-ignore]
        with ExitStack() as stack:
            shard = _Shard(self.plan, stack)
            update: Update | None = None
            count = 0
            for batch in iterator:
                keys = batch.column(self.column).drop_null()
                count += len(keys)
                with self.plan.named(shard):
                    # A shard in which nothing changes is not written anew.
                    found = shard.found(keys)
                    changes = found.any() if self.change == "remove" else not found.all()
                    if update is None and (changes or self.change == "insert") and len(keys):
                        update = shard.store.update(base=shard.store, scratch=shard.scratch)
                        # Gives up the working copy if the task fails, before the folder around it goes.
                        stack.callback(update.close)
                    if update is not None:
                        self._apply(update, keys)
            with self.plan.named(shard):
                sealed = [] if update is None else [piece.to_json() for piece in update.seal()]
        log.info("shard %s: %d keys, %d bytes fetched, sealed: %s", shard.number, count, shard.fetched, sealed or "no")
        return _Written(sealed, count, shard.fetched)

    def _apply(self, update: Update, keys: _Array) -> None:
        if self.change == "update":
            update.update(keys)
        elif self.change == "insert":
            update.insert_many(keys)
        else:
            update.remove_many(keys)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        pieces = [piece for message in messages if isinstance(message, _Written) for piece in message.sealed]
        with self.plan.named():
            sealed = [Sealed.from_json(piece) for piece in pieces]
            store = Files(self.plan.path)
            store.commit(sealed, base=self.plan.version, transaction=self.transaction, operation=self.change)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes nothing: a commit that failed after its version was published is aborted, too."""


class Source(DataSource):
    """The data source ``gowk``: each task writes the keys of one shard, and the driver publishes a version.

    :meth:`Store.insert` and :meth:`Store.remove` use it. Whoever writes to it directly registers it
    (``spark.dataSource.register(gowk.spark.Source)``), divides the rows by :meth:`Store.by_shard`, and saves them by
    ``df.write.format("gowk").mode("append").options(...).save("/data/crawl.store")``.

    ============== =========================================================================================================
    ``path``       the store's folder
    ``column``     the column with the keys, of strings or binary values; may be left out if there is one column
    ``change``     what is done with each key: ``update`` (stored unless it is found; the default), ``insert`` (one more
                   copy), ``remove`` (one copy)
    ``application`` who makes the transaction; given together with ``batch``. Without them, a repeated job commits again
    ``batch``      the number of the transaction
    ``state``      what the application wants to find again with its last transaction
    ``base``       the version that the update is made on; unless given, the one before the transaction
    ``local``      a folder of each executor's local disk; unless given, that of Spark's own temporary files
    ``local_bytes`` bytes of copies of shards that are kept there
    ``fetch``      ``false``: make the working copy straight from the store's file
    ============== =========================================================================================================
    """

    @classmethod
    def name(cls) -> str:
        return "gowk"

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        options: Mapping[str, str] = self.options
        known = ["path", "column", "change", "application", "batch", "state", "base", "local", "local_bytes", "fetch"]
        unknown = [name for name in options if name.lower() not in known]
        if unknown:
            raise ValueError(f"the data source gowk has no option {unknown[0]!r}; it has {', '.join(known)}")
        if "path" not in options:
            raise ValueError("the data source gowk needs the path of a store: save(path)")
        path = options["path"]
        if overwrite:
            raise ValueError(f"store {path}: versions are only ever added, so the mode is append, not overwrite")
        change = options.get("change", "update")
        if change not in ("update", "insert", "remove"):
            raise ValueError(f"store {path}: the option change is update, insert or remove, not {change!r}")
        application, batch = options.get("application"), options.get("batch")
        if (application is None) != (batch is None):
            raise ValueError(f"store {path}: application and batch are given together, or neither")
        transaction = None
        if application is not None and batch is not None:
            transaction = (application, int(batch), options.get("state", ""))
        store = Files(path)
        based = store.before(application, int(batch)) if application is not None and batch is not None else store
        plan = _Plan(
            path=path,
            version=int(options.get("base", based.version)),
            local=options.get("local"),
            local_bytes=int(options.get("local_bytes", LOCAL_BYTES)),
            fetch=options.get("fetch", "true").lower() != "false",
            batch=change if transaction is None else f"{change} of batch {batch} of {application!r}",
        )
        return _Writer(plan, cast(_Change, change), transaction, _column_of(schema, options.get("column"), path))


def _column_of(schema: StructType, column: str | None, path: str) -> int:
    names = schema.fieldNames()
    if column is None and len(names) != 1:
        raise ValueError(f"store {path}: which of the columns {', '.join(names)} has the keys? Set the option column")
    if column is not None and column not in names:
        raise ValueError(f"store {path}: there is no column {column!r}, only {', '.join(names)}")
    index = 0 if column is None else names.index(column)
    if not isinstance(schema[index].dataType, (StringType, BinaryType)):
        raise TypeError(f"store {path}: keys are strings or binary, and column {names[index]!r} is {schema[index].dataType}")
    return index


# The driver.

_registered: WeakSet[SparkSession] = WeakSet()


class Store:
    """A store of gowk, as a Spark driver uses it.

    The store must exist: ``gowk.Store.create(path, shards=..., capacity=...)``. Its folder is on a file system that the
    driver and all executors reach by the same path. gowk is installed on all of them.

    Rows whose key is null have no key: ``unseen`` drops them, ``insert`` and ``remove`` skip them, and ``mark`` has False.

    Args:
        path: the store's folder.
        local: a folder of each executor's local disk, in which the folder ``gowk`` is made. It keeps copies of shards over
            jobs and applications. Unless given, it is one that Spark empties when the executor ends.
        local_bytes: bytes of copies that are kept there; those that were not asked for the longest go first. The
            working copies of tasks come on top.
        fetch: whether tasks copy their shard to the local disk before they look keys up. Without it they read it where it
            is, which is right if the store lies on a local disk.

    Raises:
        gowk.NotAStore: there is no store at the path.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, local: str | os.PathLike[str] | None = None, local_bytes: int = LOCAL_BYTES, fetch: bool = True
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._local = None if local is None else os.path.abspath(os.fspath(local))
        self._local_bytes, self._fetch = local_bytes, fetch
        # The version that `unseen` has judged a batch by.
        self._bases: dict[tuple[str, int], int] = {}
        Files(self.path)

    def __repr__(self) -> str:
        return f"gowk.spark.Store({self.path!r})"

    def unseen(
        self,
        df: DataFrame,
        column: str | Column,
        *,
        application: str,
        batch: int,
        order_by: str | Column | list[str | Column] | None = None,
        new_keys: int | None = None,
    ) -> DataFrame:
        """The rows whose key no earlier batch had; of rows with equal keys, one.

        Earlier is what the store had before the transaction of this application and batch. So a batch that is repeated
        has the same keys again, even after its insert. Nothing is changed: the call may be repeated, and what it returns may
        be computed any number of times. A key that is not new is never returned as new. A new key is left out at the
        store's false positive rate.

        Args:
            df: the batch.
            column: the column with the keys, of strings or binary values; or an expression for them.
            application: who makes the batches, as for :meth:`insert`.
            batch: the number of the batch, as for :meth:`insert`.
            order_by: of rows with equal keys, the first in this order is returned. Unless given, it is any of them, and
                perhaps another one when a task is repeated. It sorts the rows of each shard.
            new_keys: an estimate of the keys that are new in this batch, for the set in which equal ones are found. It grows
                if there are more, and each doubling raises its false positive rate a little.

        Raises:
            TypeError: the keys are neither strings nor binary values.
            gowk.NoSuchVersion: the batch is repeated, and the version before it was vacuumed.
        """
        plan = self._plan(self._before(application, batch), f"unseen of batch {batch} of {application!r}")
        self._bases[application, batch] = plan.version
        each = NEW_KEYS if new_keys is None else max(1, new_keys // Files(self.path).shards)

        def is_new(keys: Iterator[_Array]) -> Iterator[_Array]:
            return _unseen(plan, each, keys)

        # To Spark it is no function of the key alone: it may neither be moved before other filters nor be evaluated twice.
        judge = _udf(is_new, BooleanType()).asNondeterministic()
        divided = self.by_shard(df, column)
        if order_by is not None:
            divided = divided.sortWithinPartitions(*(order_by if isinstance(order_by, list) else [order_by]))
        return divided.where(judge(_key(df, column, self.path)))

    def insert(
        self,
        df: DataFrame,
        column: str | Column,
        *,
        application: str,
        batch: int,
        copies: bool = False,
        state: str = "",
    ) -> StoreCommit:
        """Stores the keys of a batch in one version, exactly once, however often it is tried.

        Write what :meth:`unseen` returned to an idempotent sink before. The other way round, a sink that fails after the
        insert loses its rows, unless the batch is repeated.

        It is enough to insert the keys of the rows that :meth:`unseen` returned, read back from the sink: all others
        are found in the store already.

        Args:
            df: the batch.
            column: the column with the keys, or an expression for them.
            application: who makes the batches: one name for each sequence of them. A stream that begins a new checkpoint begins a
                new sequence.
            batch: the number of the batch; each is higher than that of the application's batch before.
            copies: store one more copy of each key, as :meth:`remove` needs it, instead of storing a key unless it is
                found.
            state: what the application wants to find again with its last transaction.

        Returns:
            How it came out. ``"already"``: the batch, or a later one of the application, was committed before.

        Raises:
            TypeError: the keys are neither strings nor binary values.
            PySparkException: the job failed, and nothing was committed. If its text names ``Conflict``, another application
                has committed since ``unseen`` judged this batch: repeat the batch from ``unseen``.
        """
        return self._write(df, column, "insert" if copies else "update", application, batch, state)

    def remove(
        self, df: DataFrame, column: str | Column, *, application: str, batch: int, state: str = ""
    ) -> StoreCommit:
        """Removes one copy of each key, in one version, exactly once. Otherwise as :meth:`insert`.

        All keys of the store must have been inserted with ``copies=True``: the job fails with ``UnsafeRemove`` otherwise. Remove only
        keys that were inserted, for another key may match one that was.
        """
        return self._write(df, column, "remove", application, batch, state)

    def mark(self, df: DataFrame, column: str | Column, name: str = "seen") -> DataFrame:
        """Adds a boolean column that says whether the store has the row's key, in the version that is the newest now.

        There is no shuffle: each executor looks into all shards, so the store should fit its local disk.

        Args:
            df: any rows.
            column: the column with the keys, of strings or binary values; or an expression for them.
            name: the name of the new column.
        """
        return df.withColumn(name, self._seen()(_key(df, column, self.path)))

    def register(self, name: str = "gowk_seen", session: SparkSession | None = None) -> None:
        """Registers what :meth:`mark` does as a function of SQL: ``SELECT * FROM pages WHERE NOT gowk_seen(url)``.

        The function looks into the version that is the newest now. Register it again for a newer one.

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
        new_keys: int | None = None,
        persist: bool = True,
    ) -> Callable[[DataFrame, int], None]:
        """For ``stream.writeStream.foreachBatch``: hands the unseen rows of each batch to ``write``, and then inserts its keys.

        Args:
            application: a name of this query and checkpoint alone. A query with another checkpoint is refused under
                it, as its batches count from 0 again.
            write: called with the unseen rows and the number of the batch. What it wrote for the same number before, it
                replaces: a batch is repeated after a failure, with the same keys.
            column: the column with the keys, or an expression for them.
            order_by: see :meth:`unseen`.
            new_keys: see :meth:`unseen`.
            persist: keep the batch while it is used twice. Without it, it is read twice.

        >>> stream.writeStream.option("checkpointLocation", "/data/checkpoint").foreachBatch(   # doctest: +SKIP
        ...     store.each_batch("crawl", lambda new, batch: new.write.mode("overwrite").parquet(f"/data/new/batch={batch}"), column="url")
        ... ).start()
        """

        def batch_of_stream(df: DataFrame, batch: int) -> None:
            state = self._query(df, application)
            if persist:
                df = df.persist()
            try:
                rows = self.unseen(df, column, application=application, batch=batch, order_by=order_by, new_keys=new_keys)
                write(rows, batch)
                self.insert(df, column, application=application, batch=batch, state=state)
            finally:
                if persist:
                    df.unpersist()

        return batch_of_stream

    def by_shard(self, df: DataFrame, column: str | Column) -> DataFrame:
        """The rows with a key, one partition for each shard: what the data source ``gowk`` needs."""
        plan = self._plan(Files(self.path).version, "by_shard")

        def shard(keys: _Array) -> _Array:
            return _shards(plan, keys)

        key, name = _key(df, column, self.path), f"gowk_shard_{uuid4().hex}"
        of_key = _udf(shard, IntegerType())
        rows = df.where(key.isNotNull()).withColumn(name, of_key(key))
        return rows.repartitionById(Files(self.path).shards, name).drop(name)

    def _before(self, application: str, batch: int) -> int:
        with _noted(self.path, application, batch):
            return Files(self.path).before(application, batch).version

    def _plan(self, version: int, batch: str) -> _Plan:
        return _Plan(self.path, version, self._local, self._local_bytes, self._fetch, batch)

    def _seen(self) -> Any:
        plan = self._plan(Files(self.path).version, "mark")

        def seen(keys: Iterator[_Array]) -> Iterator[_Array]:
            return _seen(plan, keys)

        return _udf(seen, BooleanType())

    def _committed(self, application: str, batch: int, outcome: Literal["new", "already"]) -> StoreCommit | None:
        """How the transaction came out, if it or a later one of the application was committed."""
        done = Files(self.path).transactions.get(application)
        if done is None or done.number < batch:
            return None
        return StoreCommit(outcome=outcome, version=done.version, transaction=done if outcome == "already" else None)

    def _write(
        self, df: DataFrame, column: str | Column, change: _Change, application: str, batch: int, state: str
    ) -> StoreCommit:
        base = self._bases.pop((application, batch), None)
        before = self._committed(application, batch, "already")
        if before is not None:
            return before
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
            "base": self._before(application, batch) if base is None else base,
            "local_bytes": self._local_bytes,
            "fetch": str(self._fetch).lower(),
        }
        if self._local is not None:
            options["local"] = self._local
        keys = df.select(key.alias("key"))
        with _noted(self.path, application, batch):
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
        return committed

    def _query(self, df: DataFrame, application: str) -> str:
        """What tells the query and its checkpoint from others; refused if the application's last batch was another one's."""
        try:
            query = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        except PySparkException:
            # Spark Connect does not tell.
            query = None
        if query is None:
            return ""
        state = f"query {query}"
        done = Files(self.path).transactions.get(application)
        if done is not None and done.state and done.state != state:
            raise ValueError(
                f"store {self.path}: the last batch of {application!r}, {done.number}, is of {done.state}, and this is {state}. "
                "A query with a new checkpoint counts its batches from 0, so it needs another application name"
            )
        return state


@contextmanager
def _noted(path: str, application: str, batch: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"gowk: batch {batch} of {application!r}, store {path}")
        raise


def _udf(function: Callable[..., Any], kind: DataType) -> Any:
    return arrow_udf(function, kind)  # type: ignore[call-overload, unused-ignore]


def _key(df: DataFrame, column: str | Column, path: str) -> Column:
    key = sf.col(column) if isinstance(column, str) else column
    kind = df.select(key).schema[0].dataType
    if not isinstance(kind, (StringType, BinaryType)):
        raise TypeError(f"store {path}: keys are strings or binary, and {column!r} is {kind.simpleString()}: cast it")
    return key
