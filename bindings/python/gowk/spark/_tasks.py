"""The functions that run in tasks, each on one shard. Keys stay in Arrow's memory; answers are NumPy arrays."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .. import Store as Files
from .._disk import Disk, log

if TYPE_CHECKING:
    Array = pa.Array[Any]
    Scalar = pa.Scalar[Any]
else:
    Array, Scalar = pa.Array, pa.Scalar

_KEPT = 4
"""Versions of stores that a process keeps open for ``mark``."""


@dataclass(frozen=True)
class Plan:
    """The message from the driver to the tasks: the store and version to work on, and where to keep files."""

    path: str
    version: int
    local: str | None
    local_bytes: int
    fetch: bool
    batch: str
    """A text for messages that says what the tasks do."""
    time: int | None = None
    """Of a forgetting store: the time that all tasks of the batch judge by, in milliseconds since 1970."""

    def disk(self) -> Disk:
        # Spark gives its Python processes the executor's folders for temporary files, and empties them at the end.
        ours = self.local or os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        # Users share the folder for temporary files.
        root = Path(ours) / "gowk" if ours else Path(tempfile.gettempdir()) / f"gowk-{os.geteuid()}"
        return Disk.own(root, self.local_bytes)

    def open(self) -> Files:
        if "://" in self.path:
            # The library's own copies lie on this executor's disk, too.
            if self.local is not None or "GOWK_CACHE" not in os.environ:
                os.environ["GOWK_CACHE"] = str(self.disk().root / "cache")
            os.environ.setdefault("GOWK_CACHE_SIZE", str(self.local_bytes))
        return Files(self.path, version=self.version, copies=self.disk().copies if self.fetch else None)

    def tidy(self, store: Files) -> None:
        """Removes the copies that the store has stopped reading."""
        for copy in store.take_refused_copies():
            self.disk().drop(copy)

    @contextmanager
    def named(self, work: Shard | None = None) -> Iterator[None]:
        """Adds a note to an exception that says what the task was doing."""
        try:
            yield
        except Exception as error:
            of_shard = "" if work is None or work.number is None else f"shard {work.number} of "
            error.add_note(f"gowk: {self.batch}, {of_shard}store {self.path}, version {self.version}")
            raise


def time_of_update(store: Files) -> int | None:
    """The time that an update of the store's version judges keys by, in milliseconds since 1970; None if it does not
    forget."""
    time = store.update_time()
    return None if time is None else round(time.timestamp() * 1000)


class Shard:
    """The one shard that the keys of a task belong to, in the version that the task works on."""

    def __init__(self, plan: Plan, number: int | None = None) -> None:
        self.plan, self.number, self.fetched = plan, number, 0
        with plan.named(self):
            self.store = plan.open()

    def found(self, keys: Array) -> NDArray[np.bool_]:
        """Which keys the version has; none of them may be null."""
        self._check(keys)
        found = self.store.contains_many(keys, at=self.plan.time)
        self.plan.tidy(self.store)
        return found

    def _check(self, keys: Array) -> None:
        shards = self.store.shards_of(keys)
        if self.number is None and len(shards):
            self.open(int(shards[0]))
        others = shards[shards != self.number]
        if len(others):
            raise ValueError(f"a task got keys of shards {self.number} and {others[0]}: call by_shard() right before it")

    def open(self, number: int) -> None:
        """Fetches the shard's file. Runs serve all shards: a task reads its slice of each run from the store."""
        self.number = number
        disk, file = self.plan.disk(), self.store.files.get(number)
        if file is not None and self.plan.fetch:
            self.fetched = disk.fetch(file)


class FirstOfEach:
    """Finds the first of each run of equal keys, in keys that come in ascending order of their hashes."""

    def __init__(self) -> None:
        self._last: tuple[int, Scalar] | None = None

    def among(self, hashes: NDArray[np.int64], keys: Array) -> NDArray[np.bool_]:
        """For each key, whether it differs from the one before it, in this call or in an earlier one."""
        first = np.ones(len(keys), np.bool_)
        if not len(keys):
            return first
        in_order = bool((hashes[1:] >= hashes[:-1]).all())
        if self._last is not None:
            in_order = in_order and bool(hashes[0] >= self._last[0])
            first[0] = not keys[0].equals(self._last[1])
        if not in_order:
            raise ValueError("a task got keys in another order than that of their hashes, so that equal ones could be missed")
        first[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        self._last = int(hashes[-1]), keys[-1]
        return first


def unseen(plan: Plan, batches: Iterator[tuple[Array, Array]]) -> Iterator[Array]:
    """For each key, whether it is new: not in the version, and not earlier in this task. Each key comes with its hash."""
    shard, first = Shard(plan), FirstOfEach()
    for hashes, keys in batches:
        with plan.named(shard):
            new = first.among(hashes.to_numpy(), keys) & ~shard.found(keys)
        yield pa.array(new)


def folded(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Makes a new file of each shard, with what runs have for it in the version; null if the shard has no room."""
    for batch in batches:
        numbers: list[int] = batch.column("shard").to_numpy().tolist()
        for number in numbers:
            shard = Shard(plan, number)
            with plan.named(shard), plan.disk().scratch() as scratch:
                shard.open(number)
                sealed = shard.store.fold(number, scratch=scratch)
                plan.tidy(shard.store)
            told = "no room" if sealed is None else f"{sealed.bytes} bytes"
            log.info("shard %s: folded, %d bytes fetched, sealed: %s", number, shard.fetched, told)
            yield pa.RecordBatch.from_pydict({"shard": [number], "sealed": [None if sealed is None else sealed.to_json()]}, FOLDED)


_OF_A_FOLD: dict[str, pa.DataType] = {"shard": pa.int32(), "sealed": pa.string()}
FOLDED = pa.schema(_OF_A_FOLD)
"""The rows of :func:`folded`."""

_kept: OrderedDict[Plan, Files] = OrderedDict()


def open_kept(plan: Plan) -> Files:
    """The version, which this process keeps open from task to task."""
    store = _kept.pop(plan, None) or plan.open()
    _kept[plan] = store
    if len(_kept) > _KEPT:
        _kept.popitem(last=False)
    return store


def seen(plan: Plan, batches: Iterator[Array]) -> Iterator[Array]:
    """For each key of any shard, whether the version has it."""
    with plan.named():
        store, disk = open_kept(plan), plan.disk()
    fetched: set[int] = set()
    for keys in batches:
        with plan.named():
            if plan.fetch:
                for shard in set(np.unique(store.shards_of(keys)).tolist()) & store.files.keys() - fetched:
                    disk.fetch(store.files[shard])
                    fetched.add(shard)
            found = store.contains_many(keys)
            plan.tidy(store)
            yield pa.array(found)


def shards(plan: Plan, keys: Array) -> Array:
    """The shard of each key."""
    with plan.named():
        return pa.array(open_kept(plan).shards_of(keys))
