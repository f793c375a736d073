"""The data source ``gowk``: a task writes the keys of one shard, as a run or as a new file of the shard, and the driver
publishes a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DayTimeIntervalType, NumericType, StringType, StructType

from .. import Sealed, Update, WrongClock, WrongKind
from .. import Store as Files
from .._disk import log
from ._tasks import Array, Plan, Shard, time_of_update

LOCAL_BYTES = 100 << 30
"""Bytes of copies of shards that an executor's local disk keeps unless ``local_bytes`` is given: 100 GiB."""

Change = Literal["insert", "remove"]


@dataclass
class Written(WriterCommitMessage):
    """The message of a task to the driver."""

    sealed: list[str]
    keys: int
    fetched: int


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    plan: Plan
    change: Change
    token: tuple[str, int, str] | None
    column: int
    rewriting: bool = False
    lifetime: int | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:  # type: ignore[override, unused-ignore]
        with ExitStack() as stack:
            shard = Shard(self.plan)
            update: Update | None = None
            # A counting store takes every copy of a key, and a store that refreshes takes every time of it. A lifetime may
            # prolong the time of a key. Otherwise a store takes only keys that it does not find; if all are found, nothing
            # is written.
            info = shard.store.info()
            every = self.change == "insert" and (info.kind == "counting" or info.refresh or self.lifetime is not None)
            count = 0
            for batch in iterator:
                batch = batch.filter(batch.column(self.column).is_valid())
                keys = batch.column(self.column)
                count += len(keys)
                with self.plan.named(shard):
                    # A task that changes nothing writes nothing.
                    found = shard.found(keys)
                    changes = found.any() if self.change == "remove" else not found.all()
                    if update is None and (changes or every) and len(keys):
                        scratch = stack.enter_context(self.plan.disk().scratch())
                        update = shard.store.update(base=shard.store, scratch=scratch, rewriting=self.rewriting)
                        # If the task fails, this gives up a working copy before its folder is removed.
                        stack.callback(update.close)
                    if update is not None:
                        self._apply(update, keys, batch)
            with self.plan.named(shard):
                sealed = [] if update is None else [piece.to_json() for piece in update.seal()]
                self.plan.tidy(shard.store)
        log.info("shard %s: %d keys, %d bytes fetched, sealed: %s", shard.number, count, shard.fetched, sealed or "no")
        return Written(sealed, count, shard.fetched)

    def _apply(self, update: Update, keys: Array, batch: pa.RecordBatch) -> None:
        if self.change == "remove":
            update.remove_many(keys)
        elif self.lifetime is not None:
            update.insert_many_for(keys, batch.column(self.lifetime).to_numpy(zero_copy_only=False))
        elif self.plan.time is None:
            update.update(keys)
        else:
            told = update.insert_many_at(keys, np.full(len(keys), self.plan.time))
            if told.early.size or told.late.size:
                behind = "behind" if told.early.size else "long ahead of"
                raise WrongClock(f"store {self.plan.path}: the clock of this executor is {behind} the driver's; correct it")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        pieces = [piece for message in messages if isinstance(message, Written) for piece in message.sealed]
        with self.plan.named():
            sealed = [Sealed.from_json(piece) for piece in pieces]
            store = Files(self.plan.path)
            # Tasks fold: see `SparkStore.compact`.
            store.commit(sealed, base=self.plan.version, token=self.token, operation=self.change, folds=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes nothing: a commit that failed after its version was published is aborted, too."""


class Source(DataSource):
    """The data source ``gowk``: each task writes the keys of one shard, and the driver publishes a version.

    :meth:`SparkStore.insert` and :meth:`SparkStore.remove` use it. To write to it directly, register it
    (``spark.dataSource.register(gowk.spark.Source)``), divide the rows by :meth:`SparkStore.by_shard`, save them by
    ``df.write.format("gowk").mode("append").options(...).save("/data/crawl.store")``, and then call :meth:`SparkStore.compact`.

    ============== =========================================================================================================
    ``path``       the store's folder
    ``column``     the column with the keys, of strings or binary values; not needed if there is only one column
    ``change``     what is done with each key: ``insert`` (a set stores it unless it is found, a counting store one more copy; the
                   default), or ``remove`` (one copy, from a counting store)
    ``application`` the name of the token; given together with ``batch``. Without them, a repeated job commits again
    ``batch``      the number of the token: each token is committed only once
    ``state``      what the application wants to find again with its last token
    ``base``       the version that the update is made on; unless given, the version before the token
    ``time``       of a forgetting store: when the keys were seen, in milliseconds since 1970; unless given, now
    ``lifetime``   of a forgetting store: the column with the time for which each key is kept from now on, in seconds or as an
                   interval; at most the store's ``forget_after``, and not null
    ``local``      a folder of each executor's local disk; unless given, Spark's own for temporary files
    ``local_bytes`` the most bytes of copies of shards to keep there
    ``fetch``      ``false``: read the shard in the store, without a local copy
    ``rewriting``  ``true``: rewrite each shard that gets any keys, so that no run is written
    ============== =========================================================================================================
    """

    @classmethod
    def name(cls) -> str:
        return "gowk"

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        options: Mapping[str, str] = self.options
        known = ["path", "column", "change", "application", "batch", "state", "base", "time", "lifetime", "local", "local_bytes", "fetch", "rewriting"]
        unknown = [name for name in options if name.lower() not in known]
        if unknown:
            raise ValueError(f"the data source gowk has no option {unknown[0]!r}; it has {', '.join(known)}")
        if "path" not in options:
            raise ValueError("the data source gowk needs the path of a store: save(path)")
        path = options["path"]
        if overwrite:
            raise ValueError(f"store {path}: versions are only ever added, so the mode is append, not overwrite")
        change = options.get("change", "insert")
        if change not in ("insert", "remove"):
            raise ValueError(f"store {path}: the option change is insert or remove, not {change!r}")
        application, batch = options.get("application"), options.get("batch")
        if (application is None) != (batch is None):
            raise ValueError(f"store {path}: application and batch are given together, or neither")
        token = None
        if application is not None and batch is not None:
            token = (application, int(batch), options.get("state", ""))
        store = Files(path)
        if change == "remove":
            check_counting(store)
        based = store.before(application, int(batch)) if application is not None and batch is not None else store
        plan = Plan(
            path=path,
            version=int(options.get("base", based.version)),
            local=options.get("local"),
            local_bytes=int(options.get("local_bytes", LOCAL_BYTES)),
            # The library itself keeps copies of a store in a bucket.
            fetch=options.get("fetch", "true").lower() != "false" and isinstance(store.path, Path),
            batch=change if token is None else f"{change} of batch {batch} of {application!r}",
            time=int(options["time"]) if "time" in options else time_of_update(based),
        )
        column, lifetime = _column_of(schema, options.get("column"), path), options.get("lifetime")
        if lifetime is not None and (change == "remove" or store.info().kind != "forgetting"):
            raise ValueError(f"store {path}: the option lifetime is for inserts into a store that forgets")
        rewriting = options.get("rewriting", "false").lower() == "true"
        kept_for = None if lifetime is None else _lifetime_of(schema, lifetime, path)
        return Writer(plan, cast(Change, change), token, column, rewriting, kept_for)


def check_counting(store: Files) -> None:
    """Refuses a set before a job begins. A task would refuse it only after it found one of its keys there."""
    if store.info().kind != "counting":
        message = f"{store.path}: is a set, but removing keys needs a counting filter; create another store with counting=True"
        raise WrongKind(message, path=str(store.path))


def _lifetime_of(schema: StructType, column: str, path: str) -> int:
    names = schema.fieldNames()
    if column not in names:
        raise ValueError(f"store {path}: there is no column {column!r}, only {', '.join(names)}")
    index: int = names.index(column)
    if not isinstance(schema[index].dataType, (NumericType, DayTimeIntervalType)):
        raise TypeError(f"store {path}: a lifetime is a number of seconds or an interval, and column {column!r} is {schema[index].dataType}")
    return index


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
