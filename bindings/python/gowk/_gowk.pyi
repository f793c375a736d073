from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from ._errors import Error
from ._info import (
    Committed,
    CompactReport,
    Info,
    InsertedAt,
    Limits,
    Plan,
    Progress,
    Repair,
    Report,
    Requests,
    ShardFile,
    StoreCommit,
    StoreInfo,
    StoreToken,
    StoreVersion,
    Summary,
    VacuumReport,
)

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _Several(Protocol):
    """A container of keys. One `str` is none: it iterates over its characters, but can only be asked for a `str`.

    An `Iterable[str]` may be one `str` as well: give `iter(keys)` or `list(keys)` for it.
    """

    def __iter__(self) -> Iterator[_Key]: ...
    def __contains__(self, key: object, /) -> bool: ...

_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Times: TypeAlias = Iterable[datetime | float] | NDArray[Any] | _ArrowStream | _ArrowArray
_Lifetimes: TypeAlias = timedelta | float | Iterable[timedelta | float] | NDArray[Any] | _ArrowStream | _ArrowArray
_Key: TypeAlias = str | Buffer
_Keys: TypeAlias = _Several | list[_Key] | set[_Key] | Iterator[_Key] | NDArray[Any] | _ArrowStream | _ArrowArray
_Told: TypeAlias = Callable[[int, int], object]
_Token: TypeAlias = tuple[str, int] | tuple[str, int, str]

__all__ = [
    "Distinct",
    "Job",
    "Reader",
    "Sealed",
    "Store",
    "Update",
    "Writer",
    "__version__",
    "command",
    "join",
]

__version__: str

@final
class Reader:
    """A filter open for lookups, from any number of processes and threads, beside a writer or without one.

    It sees each commit when that commit returns, and follows the filter when it doubles. Opening one takes less than a
    millisecond at any size: pages are compared with their checksums when they are first touched. There is nothing to
    close: the file is released with the last reference.

    Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.

    A reader may be pickled: the pickle holds its path and options, and the file is opened where the reader is first
    used. After :func:`os.fork`, too, each process opens the file for itself.

    Args:
        path: the filter file.
        threads: threads that share the work of a batch, at least 1. A batch with fewer than some thirty thousand keys a
            thread uses fewer threads.
        in_memory: copy the filter into memory, as of its last commit, for lookups that never wait for a disk. Later
            commits are not seen then.
        sealed: the filter's last writer has closed it, and nobody will change it any more. The reader then needs no
            locks, journal or write permission: the file may lie in an image or on a network share.
        on_damage: what a lookup does if it touches a damaged page: raise :class:`Damaged` (``"error"``), or answer that
            the key is there (``"present"``).
        verify: when pages are compared with their checksums: when they are first touched (``"first_touch"``), all of
            them now (``"eager"``), or ``"never"``.
        wait: seconds to wait for another process that is just opening or recovering the filter; at least a minute.

    Raises:
        NotFound: there is no such filter. It is a :class:`FileNotFoundError` too.
        Error: something is wrong with the file; the subclasses say what.

    >>> import gowk
    >>> with gowk.Writer("seen.gowk", capacity=1000) as seen:
    ...     seen.update(["https://example.org/", b"https://example.com/"])
    >>> reader = gowk.Reader("seen.gowk")
    >>> "https://example.com/" in reader
    True
    >>> reader.contains_many(["https://example.org/", "https://example.net/"])
    array([ True, False])
    """
    def __new__(
        cls,
        path: _Path,
        *,
        threads: int = 1,
        in_memory: bool = False,
        sealed: bool = False,
        on_damage: Literal["error", "present"] = "error",
        verify: Literal["first_touch", "eager", "never"] = "first_touch",
        wait: float = 0.0,
    ) -> Self: ...
    @staticmethod
    def _unopened(
        path: _Path,
        threads: int,
        in_memory: bool,
        sealed: bool,
        on_damage: str,
        verify: str,
        wait: float,
        shard: tuple[_Path, _Path | None, int, int] | None,
    ) -> Reader: ...
    @staticmethod
    def from_bytes(
        data: Buffer,
        threads: int = 1,
        on_damage: Literal["error", "present"] = "error",
        verify: Literal["first_touch", "eager", "never"] = "first_touch",
    ) -> Reader:
        """Reads a filter from the bytes of its file: embedded in a program, received, or taken from an archive.

        They are checked like a file, and copied. Take them from :meth:`to_bytes`, or from a file whose last writer has
        closed it. A copy of a file that was open for writing may lack commits, and is refused. The reader's :attr:`path` is
        ``<bytes>``. Its pickle holds the whole filter.

        Args:
            data: a ``bytes``-like object.
            threads: as for :class:`Reader`.
            on_damage: as for :class:`Reader`.
            verify: as for :class:`Reader`.

        Raises:
            Error: the bytes are not a filter, or are damaged; the subclasses say what.
            Invalid: the bytes are a copy of a file that was open for writing.

        >>> import gowk
        >>> with gowk.Writer("seen.gowk", capacity=1000) as seen:
        ...     seen.add("a")
        >>> data = gowk.Reader("seen.gowk").to_bytes()
        >>> "a" in gowk.Reader.from_bytes(data)
        True
        """
    def to_bytes(self) -> bytes:
        """Copies the filter, as of one commit, to bytes: the same bytes that :meth:`copy_to` writes to a file.

        Raises:
            Damaged: a page is damaged.
        """
    def __contains__(self, key: _Key, /) -> bool: ...
    def contains_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Looks up many keys, several times as fast as one by one: a NumPy array of bool, one a key, in their order.

        Each answer is right as of some moment during the call. A null is never present. The GIL is released.

        Args:
            keys: any iterable of keys; a NumPy array of dtype ``S``, ``U`` or ``object``; or an object that offers
                Arrow data of strings or binary values (pyarrow, polars, DuckDB, pandas), which are not copied.

        Raises:
            TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index. Or
                ``keys`` is not a collection of keys.

        >>> import gowk, numpy
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.update(["a", "b"])
        >>> gowk.Reader("seen.gowk").contains_many(numpy.array(["b", "c", "a"]))
        array([ True, False,  True])
        """
    def count(self, key: _Key) -> int:
        """How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
        so the answer is never too low.

        >>> import gowk
        >>> with gowk.Writer("copies.gowk", counting=True) as copies:
        ...     copies.update(["a", "b", "a"])
        >>> gowk.Reader("copies.gowk").count("a")
        2
        """
    def count_many(self, keys: _Keys) -> NDArray[np.uint64]:
        """Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0."""
    def __len__(self) -> int: ...
    def info(self) -> Info:
        """The filter's shape, contents and expected rates, as of its last commit."""
    @property
    def expected_false_positive_rate(self) -> float:
        """The chance that a key never inserted is found now, 0 to 1."""
    @property
    def metadata(self) -> Mapping[str, bytes]:
        """Names and bytes that the filter carries, as of its last commit: a mapping of ``str`` to ``bytes`` that does not
        change.
        """
    @property
    def path(self) -> Path:
        """The filter file, as a :class:`pathlib.Path` without links followed."""
    def verify(self, progress: _Told | None = None) -> Report:
        """Reads every page, and compares it with its checksum and with the counters.

        Args:
            progress: called with the number of pages read, and of all pages. If it raises, the call ends.

        Raises:
            Busy: a writer stopped in the middle of a commit and does not go on.

        >>> import gowk
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.add("a")
        >>> gowk.Reader("seen.gowk").verify().is_clean
        True
        """
    def reload(self) -> bool:
        """Reopens the filter if another file has taken its name, as after ``mv new.gowk live.gowk``; returns whether it did.

        Every batch checks this first, and single lookups check twice a second. Commits, doublings and :meth:`copy_to` over
        the filter are seen at once without it.
        """
    def divide_to(self, destinations: Sequence[_Path], progress: _Told | None = None) -> None:
        """Divides the filter, as of one commit, into as many shards as there are destinations, whose files must not exist.

        Together the shards answer as the filter does. :func:`join` puts them together again.

        Args:
            destinations: the files, in the order of the shards.
            progress: called with the number of regions written, and of all regions. If it raises, the call ends.

        Raises:
            Invalid: the filter's number of regions cannot be divided by the number of destinations.

        >>> import gowk
        >>> with gowk.Writer("whole.gowk", capacity=100_000, slots_per_bucket=4) as whole:
        ...     whole.update(["a", "b", "c"])
        >>> gowk.Reader("whole.gowk").divide_to(["0.gowk", "1.gowk"])
        >>> shards = [gowk.Reader("0.gowk"), gowk.Reader("1.gowk")]
        >>> gowk.join(shards, "again.gowk")
        >>> gowk.Reader("again.gowk").contains_many(["a", "b", "c", "d"])
        array([ True,  True,  True, False])
        """
    def copy_to(self, destination: _Path, progress: _Told | None = None, *, over: bool = False) -> None:
        """Copies the filter, as of one commit, to a file that must not exist, or over another filter.

        Seed, keys, counters and metadata are the same. The copy is durable when the call returns. Readers of a filter that
        is replaced go on with the copy at once.

        Args:
            destination: the file.
            progress: called with the number of regions copied, and of all regions. If it raises, the call ends.
            over: whether to replace a filter at the destination.

        Raises:
            Exists: the destination exists already. It is a :class:`FileExistsError` too.
            Damaged: a page is damaged.
        """
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Writer:
    """A filter open for changes: by one writer at a time, over all processes.

    All changes belong to a transaction. This writer sees them at once, and nobody else before :meth:`commit`. As a
    context manager it commits and closes at the end of the block; an exception rolls back instead. If that commit
    fails, the writer stays open, so that the commit may be tried again. A writer that is dropped without :meth:`close`
    rolls back, with a :class:`ResourceWarning` if there were changes.

    The kind of a filter is fixed when it is created; :attr:`Info.kind` shows it. A **set** stores a key unless it is
    found. A **counting** filter stores each copy, and :meth:`remove` takes one. A **forgetting** one keeps each key for some
    time. On all of them, :meth:`insert` returns whether the key was not there before.

    Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.

    A writer belongs to the process that opened it, and cannot be pickled. Threads may share it.

    Args:
        path: the filter file; ``FILE-journal`` and ``FILE-lock`` lie beside it.
        mode: ``"a"`` opens or creates the filter, ``"r+"`` opens an existing filter, ``"x"`` creates a new one, and
            ``"w"`` creates one, replacing an existing filter.
        counting: at creation: the filter counts copies of keys, which can be removed; otherwise it is a set. True
            refuses an existing set; False accepts an existing filter of any kind.
        forget_after: at creation: the filter forgets each key: it keeps the key at least this long after it was first
            seen; a :class:`datetime.timedelta`, or seconds. An existing filter that forgets in another way is refused.
        forget_within: at creation: it forgets each key at most this much later, as long as its time goes on; half of
            ``forget_after`` unless given. The shorter, the more room a key takes.
        refresh: at creation: the time counts from when a key was last seen.
        keep_newest: at creation, instead of a time and a capacity: the filter keeps at least this many of the newest
            keys, and never grows. An existing filter with another setting is refused.
        capacity: at creation: distinct keys that the filter takes before it has to double; a million unless given.
        false_positive_rate: at creation: the chance that a key never inserted is found, at full load and before any
            doubling; 0.001 unless given. Chooses the slots. An existing filter of a higher rate is refused.
        slots_per_bucket: at creation: 2 to 7, instead of a rate.
        seed: at creation: the seed of the hash; random unless given.
        growth: at creation: whether the filter doubles itself when it is full, ``"auto"`` (unless given) or ``"never"``.
        max_file_size: at creation: the most bytes that the file may have.
        max_false_positive_rate: at creation: the highest expected rate that a doubled filter may have.
        threads: threads that share the work of a batch, at least 1.
        wait: seconds to wait for another writer to finish.
        verify: when pages are compared with their checksums; see :class:`Reader`.
        max_kicks: the most entries that one search for a free slot examines.
        void_growth: whether the filter may double although most of its entries would be copied to both sides.
        like: at creation: a reader of another filter, whose settings this one gets, so that the two can be merged. Give
            no ``capacity``, rate, slots or seed beside it.
        shard: at creation: ``(number, of)``: the filter holds shard ``number``, from 0, of ``of``. A key of another
            shard is refused with :class:`Invalid`.
        clock_is_right: believe the clock, even if a forgetting filter would then forget all keys at once, or if the
            filter's time is later than the clock.

    Raises:
        Locked: another writer has the filter.
        WrongKind: the filter is a set, and a counting one was asked for.
        Invalid: an option is outside its range, or the filter exists and has a higher rate than asked for. It is a
            :class:`ValueError` too.
        Error: something is wrong with the file; the subclasses say what.

    >>> import gowk
    >>> with gowk.Writer("seen.gowk", capacity=100_000, false_positive_rate=1e-4) as seen:
    ...     seen.insert("https://example.org/"), seen.insert("https://example.org/")
    (True, False)
    """
    def __new__(
        cls,
        path: _Path,
        *,
        mode: Literal["a", "r+", "x", "w"] = "a",
        counting: bool = False,
        forget_after: timedelta | float | None = None,
        forget_within: timedelta | float | None = None,
        refresh: bool = False,
        keep_newest: int | None = None,
        capacity: int | None = None,
        false_positive_rate: float | None = None,
        slots_per_bucket: int | None = None,
        seed: int | None = None,
        growth: Literal["auto", "never"] | None = None,
        max_file_size: int | None = None,
        max_false_positive_rate: float | None = None,
        threads: int = 1,
        wait: float = 0.0,
        verify: Literal["first_touch", "eager", "never"] = "first_touch",
        max_kicks: int = 2000,
        void_growth: bool = False,
        like: Reader | None = None,
        shard: tuple[int, int] | None = None,
        clock_is_right: bool = False,
    ) -> Self: ...
    def __contains__(self, key: _Key, /) -> bool: ...
    def contains_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Looks up many keys: a NumPy array of bool, one a key, in their order. See :meth:`Reader.contains_many`; a reader
        is faster.
        """
    def count(self, key: _Key) -> int:
        """How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
        so the answer is never too low.
        """
    def count_many(self, keys: _Keys) -> NDArray[np.uint64]:
        """Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0."""
    def insert_many_at(self, keys: _Keys, times: _Times) -> InsertedAt:
        """Stores many keys that were seen at these times in a forgetting filter; see :meth:`insert_many`.

        This moves the filter's time to the time of the latest key; the other methods move it to the time of the clock. It
        never goes back. A key whose time is so old that it would be forgotten already is *late*; a key more than five
        minutes ahead of the clock is *early*. Neither is stored.

        Args:
            keys: as for :meth:`insert_many`. Nulls are skipped.
            times: one for each key: a NumPy array of ``datetime64`` (UTC), Arrow timestamps, a column of pandas, or an
                iterable of :class:`datetime.datetime` with a time zone. Numbers below 10**11 are seconds since 1970, and
                others milliseconds.

        Returns:
            an :class:`InsertedAt`, which says which keys are new, late and early.

        Raises:
            WrongKind: the filter does not forget.
            WrongClock: the times are so far ahead that every key would be forgotten at once; see ``clock_is_right``.
            ValueError: there are not as many times as keys, or one is missing.
            NoRoom: see :meth:`insert_many`.

        >>> import gowk
        >>> with gowk.Writer("recent.gowk", forget_after=30 * 86400) as seen:
        ...     told = seen.insert_many_at(["a", "b", "a"], [1784000000, 1784000060, 1784000120])
        ...     told.new, seen.info().forget_after
        (array([ True,  True, False]), datetime.timedelta(days=30))
        """
    def insert_for(self, key: _Key, lifetime: timedelta | float) -> bool:
        """Stores the key in a forgetting filter, and keeps it for this lifetime from now on, a ``timedelta`` or seconds;
        returns whether it is **new**. See :meth:`insert_many_for`.
        """
    def insert_many_for(self, keys: _Keys, lifetimes: _Lifetimes) -> NDArray[np.bool_]:
        """Stores many keys in a forgetting filter, each for a lifetime of its own from now on; returns which are **new**, as
        :meth:`insert_many` does. A key that is there already keeps the later of its two expiry times.

        Args:
            keys: as for :meth:`insert_many`. Nulls are skipped.
            lifetimes: one for each key: a NumPy array of ``timedelta64``, Arrow durations, a column of pandas, or an
                iterable of :class:`datetime.timedelta` or seconds; or a single one for all keys. At most the
                ``forget_after`` of the filter.

        Raises:
            WrongKind: the filter does not forget.
            ValueError: a lifetime is missing, negative or too long, or there are not as many as keys. Nothing is stored.
            NoRoom: see :meth:`insert_many`.

        >>> import gowk
        >>> with gowk.Writer("cached.gowk", forget_after=30 * 86400) as seen:
        ...     seen.insert_many_for(["a", "b", "a"], [3600, 60, 86400]), seen.insert_for("b", 7200)
        (array([ True,  True, False]), False)
        """
    def sweep(self) -> int:
        """Moves a forgetting filter to the time of the clock, and frees the slots of expired keys. Returns how many entries it
        freed. Only a filter that gets no keys needs it; see ``docs/forgetting.md``.

        Raises:
            WrongKind: the filter does not forget.
            WrongClock: every key would be forgotten at once, or the clock is behind the filter's time; see
                ``clock_is_right``.
        """
    def add(self, key: _Key) -> None:
        """Like :meth:`insert`, without an answer."""
    def update(self, keys: _Keys) -> None:
        """Like :meth:`insert_many`, without answers, and so in constant memory.

        >>> import gowk
        >>> seen = gowk.Writer("seen.gowk")
        >>> try:
        ...     seen.update(["a", "b", 3, "d"])
        ... except TypeError as error:
        ...     print(error, error.taken)
        keys[2] is int, but a key is str or bytes-like 2
        >>> "b" in seen, "d" in seen
        (True, False)
        >>> seen.rollback()
        """
    def insert(self, key: _Key) -> bool:
        """Stores the key; returns whether it is **new**, which means that it was not there before.

        A set stores it unless it is found. A counting filter always stores one more copy.

        Raises:
            TypeError: the key is neither ``str`` nor ``bytes``-like.
            NoRoom: the filter has no room for the key, and growth is off or forbidden by a limit.

        >>> import gowk
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.insert("a"), seen.insert(b"a")
        (True, False)
        """
    def insert_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Stores many keys, several times as fast as one by one; returns which are **new**: a NumPy array of bool, one a key,
        in their order. The GIL is released.

        Of equal keys, only the first can be new. Nulls are skipped, and have False.

        An iterable is read in chunks of about a million keys, or 16 MiB of them; only the answers take more memory. If
        the iterable raises, if one of its items is not a key, or at Ctrl-C, the keys before that stay in the open
        transaction: the exception's attribute ``taken`` has their number, ``mask`` their answers, and a note says so.
        :meth:`commit` keeps them, and :meth:`rollback` undoes them.

        Args:
            keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.

        Raises:
            TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index.
            NoRoom: some keys found no room; the others of their chunk were taken. The exception's attribute ``refused``
                has the number of refused keys, and ``index`` the index of the first. ``mask`` says that they are new,
                unless copies of them were there.

        >>> import gowk
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.insert_many(["a", "b", "a"])
        array([ True,  True, False])
        """
    def remove(self, key: _Key) -> bool:
        """Removes one copy of the key from a counting filter; returns whether there was one.

        Remove only keys that were inserted: removing any other key can take an entry that a stored key needs, and that
        key is lost.

        Raises:
            WrongKind: the filter is a set.
        """
    def remove_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Removes one copy of each key; returns where there was one: a NumPy array of bool, one a key, in their order.

        Everything else is as for :meth:`remove` and :meth:`insert_many`.
        """
    def commit(self) -> None:
        """Makes the transaction's keys and metadata durable and visible, all or nothing. Without changes it does nothing.

        Raises:
            Unknown: whether the commit is durable is unknown until the filter is opened again.
            AfterCommit: the commit is durable, but was not applied.
            Error: after any other error the commit is not there, and may be tried again or rolled back.
        """
    def rollback(self) -> None:
        """Forgets all changes since the last commit."""
    def close(self) -> None:
        """Closes the filter, so that other writers can open it. Closing again does nothing.

        Raises:
            Uncommitted: there were changes since the last commit. They are lost, and the filter is closed: call
                :meth:`commit` or :meth:`rollback` before.
            AfterCommit: closing failed; all commits are durable.
        """
    def checkpoint(self) -> None:
        """Makes all commits part of the file itself, and empties the journal. Closing does this, and so does a commit once
        the journal exceeds 64 MiB.
        """
    def grow(self, progress: _Told | None = None) -> None:
        """Doubles the filter now, as part of the open transaction.

        Args:
            progress: called with the number of regions done, and of all regions. If it raises, the doubling ends.

        Raises:
            NoRoom: a limit forbids it.
        """
    def shrink(self, progress: _Told | None = None) -> None:
        """Halves the filter now, as part of the open transaction: undoes one doubling, keeping every key.
        :attr:`Info.shrunk` describes the filter after it.

        Args:
            progress: called with the number of regions done, and of all regions. If it raises, the halving ends.

        Raises:
            Invalid: the filter has not doubled, or its entries do not fit into half of the slots.
        """
    def merge(self, other: Reader, *, progress: _Told | None = None) -> None:
        """Stores all entries of another filter, as part of the open transaction, without the original keys. The result is the
        union of two sets, or the sum of two counting filters.

        Both need the same kind, seed, slots and shard: create one of them with ``like=other``. The merge takes as long as a
        doubling, however few keys the other filter holds. The other's metadata is not taken over.

        Args:
            other: a reader of the other filter.
            progress: called with the number of regions done, and of all regions; it starts again if the filter has to
                double. If it raises, the merge ends.

        Raises:
            Invalid: the filters differ in a property that must be equal; the message names it.
            NoRoom: there is no room, and growth is off or forbidden by a limit.

        >>> import gowk
        >>> with gowk.Writer("monday.gowk") as monday:
        ...     monday.update(["a", "b"])
        >>> with gowk.Writer("tuesday.gowk", like=gowk.Reader("monday.gowk")) as tuesday:
        ...     tuesday.update(["b", "c"])
        ...     tuesday.merge(gowk.Reader("monday.gowk"))
        >>> gowk.Reader("tuesday.gowk").contains_many(["a", "b", "c", "d"])
        array([ True,  True,  True, False])
        """
    @property
    def limits(self) -> Limits:
        """How far the filter may grow."""
    def set_limits(self, limits: Limits) -> None:
        """Changes how far the filter may grow. This takes effect at once, and a rollback does not undo it.

        Args:
            limits: the new limits. :func:`dataclasses.replace` makes them from :attr:`limits`.

        Raises:
            Invalid: a limit is out of range, or below what the file has already.

        >>> import dataclasses, gowk
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.set_limits(dataclasses.replace(seen.limits, max_file_size=8 << 30))
        >>> gowk.Reader("seen.gowk").info().max_file_size
        8589934592
        """
    def repair(self, progress: _Told | None = None) -> Repair:
        """Gives up damaged pages, so that the filter can be used again: their slots match every key from now on. Rolls the
        open transaction back, and commits.

        Args:
            progress: called with the number of pages read, and of all pages. If it raises, the repair ends.
        """
    def __len__(self) -> int: ...
    def info(self) -> Info:
        """The filter as the open transaction has it."""
    @property
    def expected_false_positive_rate(self) -> float:
        """The chance that a key never inserted is found now, 0 to 1."""
    @property
    def metadata(self) -> MutableMapping[str, bytes]:
        """Names and bytes that the filter carries: a mutable mapping of ``str`` to ``bytes``, committed and rolled back
        with the keys. At most 49,152 bytes in all: names, values, and 8 bytes for each entry.

        >>> import gowk
        >>> with gowk.Writer("seen.gowk") as seen:
        ...     seen.metadata["crawl"] = b"page 17"
        >>> gowk.Reader("seen.gowk").metadata["crawl"]
        b'page 17'
        """
    def _entries(self) -> dict[str, bytes]: ...
    def _set_entry(self, name: str, value: Buffer | str) -> None: ...
    def _remove_entry(self, name: str) -> bool: ...
    @property
    def path(self) -> Path:
        """The filter file, as a :class:`pathlib.Path` without links followed."""
    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Store:
    """A folder of filters under versions: for sets that outgrow one file or one machine, on any file system, without
    locks.

    The filters are *shards* that divide all keys among themselves. Their files never change: an update writes a *run*, one
    file with a record for each new key of any shard, or new files for the shards that get many keys. Its commit
    publishes a *version* that names the runs and a file for each shard. Any number of processes on any number of machines
    read and change a store at the same time.

    A store object looks into one version, the newest unless one is given, until :meth:`reload` or a commit of its own
    moves it to a newer one. Opening takes the same time at any size: the file of a shard is opened, and compared with
    its row in the version, when a key of that shard is first looked up.

    It may be pickled: the pickle holds its path, version and options, and the store is opened where it is first used.
    After :func:`os.fork`, too, each process opens it for itself. There is nothing to close.

    Args:
        path: the folder; or a bucket, as the text ``"s3://bucket/prefix"``, ``"gs://bucket/prefix"`` or
            ``"az://container/prefix"``. Credentials, region and endpoint come from the environment (``AWS_ACCESS_KEY_ID`` and
            so on); see ``docs/operating.md``.
        version: the number of a version to look into, instead of the newest.
        copies: a folder with copies of files of shards, under their own names. A copy is read instead of the store's
            own file; see :attr:`files`. Copies are a cache: if a copy fails, the store's own file is read. A copy fails
            if its length, uuid, commit or number of entries differs from the version's, if it cannot be read, or if a
            page that ``verify`` compares does not match its checksum.
        threads: threads that share the work of a batch, at least 1.
        on_damage: see :class:`Reader`.
        verify: see :class:`Reader`.
        clock_is_right: for a forgetting store; see :class:`Writer`.

    Raises:
        NotFound: there is no such folder, or the version was vacuumed or never made. It is a :class:`FileNotFoundError` too.
        Foreign: the folder is not a store.
        Error: something is wrong with one of the store's own files; the subclasses say what.

    >>> import gowk
    >>> store = gowk.Store.create("crawl.store", shards=4, capacity=100_000)
    >>> store.insert_many(["https://example.org/", "https://example.com/"], token=("crawl", 118))
    array([ True,  True])
    >>> store.insert_many(["https://example.org/", "https://example.com/"], token=("crawl", 118))   # tried again
    array([ True,  True])
    >>> store.insert_many(["https://example.org/", "https://example.net/"], token=("crawl", 119))
    array([False,  True])
    >>> "https://example.net/" in gowk.Store("crawl.store")
    True
    """
    def __new__(
        cls,
        path: _Path,
        *,
        version: int | None = None,
        copies: _Path | None = None,
        threads: int = 1,
        on_damage: Literal["error", "present"] = "error",
        verify: Literal["first_touch", "eager", "never"] = "first_touch",
        clock_is_right: bool = False,
    ) -> Self: ...
    @staticmethod
    def _unopened(
        path: _Path,
        version: int,
        copies: _Path | None,
        threads: int,
        on_damage: str,
        verify: str,
        clock_is_right: bool,
    ) -> Store: ...
    @staticmethod
    def create(
        path: _Path,
        *,
        shards: int,
        counting: bool = False,
        forget_after: timedelta | float | None = None,
        forget_within: timedelta | float | None = None,
        refresh: bool = False,
        capacity: int | None = None,
        false_positive_rate: float | None = None,
        slots_per_bucket: int | None = None,
        seed: int | None = None,
        growth: Literal["auto", "never"] | None = None,
        max_file_size: int | None = None,
        max_false_positive_rate: float | None = None,
        keep: int | None = None,
        grace: timedelta | float | None = None,
        threads: int = 1,
        filter: Reader | None = None,
        progress: _Told | None = None,
    ) -> Store:
        """Creates a store in a folder that does not exist or is empty, and opens it.

        Args:
            path: the folder.
            shards: the number of filters that divide all keys, 1 to 65536. A good size for the file of a shard is 1 to
                4 GiB.
            counting: the store counts copies of keys, which can be removed; otherwise it is a set. See :class:`Writer`.
            forget_after: the store forgets each key after this time; see :class:`Writer`. Lookups in a version judge by the
                version's own time: the clock's, or the latest key's, when it was committed.
            forget_within: see :class:`Writer`.
            refresh: see :class:`Writer`.
            capacity: distinct keys that all shards together take before they have to double; a million unless given.
            false_positive_rate: see :class:`Writer`.
            slots_per_bucket: see :class:`Writer`.
            seed: see :class:`Writer`.
            growth: whether shards double themselves when they are full; see :class:`Writer`.
            max_file_size: the most bytes that the file of a shard may have.
            max_false_positive_rate: the highest expected rate that a doubled shard may have.
            keep: commits vacuum too, and leave this many versions at any age; see :meth:`vacuum`. Off unless this or ``grace`` is
                given; 1 if only ``grace`` is.
            grace: the time that a version stays after the next one was made, when commits vacuum: a ``timedelta`` or seconds; a day
                if only ``keep`` is given.
            threads: see :class:`Store`.
            filter: a filter to divide among the shards. The store then gives the same answers, wrong ones included. Give
                none of the options from ``counting`` to ``max_false_positive_rate`` beside it.
            progress: called with the number of regions of ``filter`` that are divided, and of all its regions. If it
                raises, the call ends.

        Raises:
            Exists: the folder exists and is not empty, or a file has its name. It is a :class:`FileExistsError` too.
            Invalid: an option is outside its range, or ``filter`` cannot be divided into so many shards. It is a
                :class:`ValueError` too.
        """
    @staticmethod
    def is_at(path: _Path) -> bool:
        """Whether a folder is a store, judged by the names of its files."""
    @property
    def path(self) -> Path | str:
        """The folder, as a :class:`pathlib.Path` without links followed; or the address in a bucket, as text."""
    @property
    def version(self) -> int:
        """The number of the version that this object looks into."""
    @property
    def shards(self) -> int:
        """How many shards there are."""
    @property
    def requests(self) -> Requests | None:
        """The requests to the server of a bucket that this object has made since it was opened, including requests of store
        objects that its ``at`` and ``before`` returned; None for a store in a folder.
        """
    @property
    def files(self) -> Mapping[int, ShardFile]:
        """The file of each shard that has one, by the shard's number from 0. A shard without a file has only records in runs.
        Runs are not among these files.

        A file never changes, and no two files have the same name. So a copy under that name on a local disk stays good for
        any time, and ``Store(path, version=..., copies=folder)`` reads it. Copy to another name first and then rename, so
        that nobody finds half a copy.
        """
    @property
    def tokens(self) -> Mapping[str, StoreToken]:
        """The last token of each application, by its name."""
    def take_refused_copies(self) -> list[Path]:
        """The copies in ``copies`` that failed since the last call. This object no longer reads them: remove them."""
    def info(self) -> StoreInfo:
        """The store's fixed properties, and the version in numbers. This opens no file of a shard."""
    def log(self) -> list[StoreVersion]:
        """All versions that exist, the oldest first."""
    def reload(self) -> bool:
        """Moves to the newest version; returns whether that is another one. Files that both versions name stay open."""
    def at(self, version: int) -> Store:
        """A store object for another version, with the same options.

        Raises:
            NotFound: the version was vacuumed, or never made.
        """
    def before(self, application: str, number: int) -> Store:
        """The store as it was before the commit with a token. If the token of this application and number was committed,
        this is the version that its commit was based on; else it is the newest.

        A retry that reads this version gets the first attempt's answers.

        Raises:
            NotFound: the version was vacuumed.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> for _ in range(2):
        ...     before = store.before("crawl", 118)
        ...     with store.update(base=before, token=("crawl", 118)) as update:
        ...         update.update(["a"])
        ...     print(before.version, "a" in before, update.committed.outcome)
        1 False new
        1 False already
        """
    def __contains__(self, key: _Key, /) -> bool: ...
    def contains_many(self, keys: _Keys, *, at: datetime | float | None = None) -> NDArray[np.bool_]:
        """Looks up many keys: a NumPy array of bool, one a key, in their order. A null is never present. The GIL is
        released.

        Args:
            keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
            at: for a forgetting store: judge by this time, if it is later than the version's time; see :meth:`update_time`.

        Raises:
            TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index.
            NotFound: the version was removed by a vacuum before the file of a shard was opened; :meth:`reload`.
            Damaged: the file of a shard is missing, or is not the file that the version names.
        """
    def update_time(self) -> datetime | None:
        """The time that an update of this version uses to judge which keys have expired: now, by the clock. If :meth:`before`
        returned this store for a token that was committed, it is the time of that commit. None unless the store forgets.

        A program that divides a batch among processes should call this once, and pass the time to ``contains_many`` (``at``)
        and ``insert_many_at``. If each process read its own clock, a key that expires during the batch could be present for
        one process and gone for another.

        Raises:
            WrongClock: the clock would make the store forget every key at once, or is behind the store's time.
        """
    def count(self, key: _Key) -> int:
        """How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
        so the answer is never too low.
        """
    def count_many(self, keys: _Keys) -> NDArray[np.uint64]:
        """Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0."""
    def shards_of(self, keys: _Keys) -> NDArray[np.int32]:
        """The shard that each key belongs to: a NumPy array of int32, one a key, in their order. A null has -1.

        This opens no file of a shard. The GIL is released.

        >>> import gowk
        >>> gowk.Store.create("crawl.store", shards=4, seed=1).shards_of(["a", "b", "c"])
        array([3, 2, 1], dtype=int32)
        """
    def shard(self, number: int) -> Reader | None:
        """A reader of one shard alone, whose file matches its row in the version; None if the shard is empty.

        A key of another shard is refused with :class:`Invalid`. The reader opens the copy in ``copies`` unless that has
        failed before. If the copy fails later, this reader raises, and the store reads its own file.

        Raises:
            IndexError: there is no such shard.
            Damaged: the file is not the file that the version names.
        """
    def update(
        self,
        *,
        base: int | Store | None = None,
        token: _Token | None = None,
        operation: str = "update",
        scratch: _Path | None = None,
        rewriting: bool = False,
    ) -> Update:
        """Begins an update, which nobody sees before its commit.

        Args:
            base: the version that the update is made on: its number, or a store object that looks into it. Unless
                given, the version :meth:`before` the token; without a token, the newest.
            token: an application, a number, and perhaps a state that the application keeps. A commit with a token
                happens once, however often it is tried. Numbers of an application ascend.
            operation: a word for the log that says what the commit does.
            scratch: a folder for working copies and runs instead of the store's own, for example on a fast local disk. They
                move into the store when they are sealed. A killed process leaves its files there: remove them when no update
                uses the folder.
            rewriting: rewrite each shard that gets any keys, so that no run is written.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> with store.update() as update:     # commits at the end, or gives up at an exception
        ...     update.update(["a", "b"])
        >>> "a" in store, store.version
        (True, 2)
        """
    @overload
    def insert_many(
        self,
        keys: _Keys,
        *,
        token: _Token | None = None,
        operation: str = "insert",
        scratch: _Path | None = None,
        return_commit: Literal[False] = False,
    ) -> NDArray[np.bool_]:
        """Stores all keys in one commit, as :meth:`Writer.insert_many` does; returns which are **new**: a NumPy array of bool,
        one a key, in their order.

        Of equal keys, only the first can be new. A null has False. A retry with the same token changes nothing, and
        gets the first attempt's answers. Keys that other commits bring at the same time are judged again, so that one commit
        calls each key new.

        Args:
            keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
            token: see :meth:`update`.
            operation: a word for the log that says what the commit does.
            scratch: see :meth:`update`.
            return_commit: return a pair instead: the array, and the outcome of the commit, such as ``"already"``.

        Raises:
            Invalid: the application has committed a higher token than this.
            Conflict: another commit has changed a shard that this one rewrites, and the keys come from an iterator, which
                cannot be read again. Nothing was committed.
            Error: nothing was committed, except perhaps after :class:`Unknown`.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> for _ in range(2):
        ...     new, commit = store.insert_many(["a", "b"], token=("crawl", 118), return_commit=True)
        ...     print(new, commit.outcome)
        [ True  True] new
        [ True  True] already
        """
    @overload
    def insert_many(
        self,
        keys: _Keys,
        *,
        token: _Token | None = None,
        operation: str = "insert",
        scratch: _Path | None = None,
        return_commit: Literal[True],
    ) -> tuple[NDArray[np.bool_], StoreCommit]:
        """Stores all keys in one commit, as :meth:`Writer.insert_many` does; returns which are **new**: a NumPy array of bool,
        one a key, in their order.

        Of equal keys, only the first can be new. A null has False. A retry with the same token changes nothing, and
        gets the first attempt's answers. Keys that other commits bring at the same time are judged again, so that one commit
        calls each key new.

        Args:
            keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
            token: see :meth:`update`.
            operation: a word for the log that says what the commit does.
            scratch: see :meth:`update`.
            return_commit: return a pair instead: the array, and the outcome of the commit, such as ``"already"``.

        Raises:
            Invalid: the application has committed a higher token than this.
            Conflict: another commit has changed a shard that this one rewrites, and the keys come from an iterator, which
                cannot be read again. Nothing was committed.
            Error: nothing was committed, except perhaps after :class:`Unknown`.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> for _ in range(2):
        ...     new, commit = store.insert_many(["a", "b"], token=("crawl", 118), return_commit=True)
        ...     print(new, commit.outcome)
        [ True  True] new
        [ True  True] already
        """
    def commit(
        self,
        sealed: Iterable[Sealed],
        *,
        base: int | Store | None = None,
        token: _Token | None = None,
        operation: str = "update",
        folds: bool = True,
    ) -> StoreCommit:
        """Publishes a version with sealed files, which other processes may have made: all or nothing.

        Commits made since the base stay: the changes are put on top of them. Several runs are merged into one first. At the
        end this store object moves to the newest version.

        Args:
            sealed: the files that :meth:`Update.seal` returned: runs, and at most one file for each shard.
            base: the version that the updates were made on; unless given, the base of ``sealed``.
            token: see :meth:`update`. If this token was committed before, nothing is changed.
            operation: a word for the log that says what the commit does.
            folds: after the commit, also fold the shards that are due, in this process. See :meth:`compact`.

        Raises:
            Conflict: since the base, another commit has brought one of the keys, or has changed a shard that this one
                rewrites; the attribute ``version`` is that commit's version. Or a vacuum has ruled out updates with a base
                as old as this.
            Invalid: a sealed file belongs to another store or base, is a fold, or two files belong to one shard; or the
                application has committed a higher token than this.
            Unknown: whether the version is durable is unknown; commit again with the same token.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> update = store.update()
        >>> update.update(["a", "b"])
        >>> sealed = [piece.to_json() for piece in update.seal()]     # sent to another process
        >>> store.commit(map(gowk.Sealed.from_json, sealed), token=("crawl", 118)).outcome
        'new'
        """
    def distinct(self, capacity: int, *, folder: _Path | None = None) -> Distinct:
        """A set of keys that is thrown away, for finding equal keys within a batch.

        It takes keys of all shards. It gets the store's false-positive rate of the moment when it is created. The same keys
        in the same order get the same answers each time.

        Args:
            capacity: distinct keys that it takes before it has to double.
            folder: the folder for its file, of some two bytes a key; the system's folder for temporary files unless
                given.
        """
    def compact(self, *, all: bool = False, progress: _Told | None = None) -> CompactReport:
        """Folds the records of runs into the files of the shards. Commits fold shards as they become due.

        It may run beside any other use of the store. If another process rewrites a shard during the call, that file is kept
        instead of the folded one. If the call is interrupted, the store stays as it was. Old files stay until a vacuum. At
        the end this store object moves to the newest version.

        Args:
            all: fold every shard that has a record in a run, not only shards that are due.
            progress: called with the number of shards folded, and of all shards to fold. If it raises, the call ends.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> store.compact(all=True).folded
        0
        """
    def to_fold(self, *, all: bool = False) -> list[int]:
        """The shards of this version that should be folded, for :meth:`fold`, perhaps in many processes.

        Args:
            all: every shard that has a record in a run, not only shards that are due.
        """
    def fold(self, shard: int, *, scratch: _Path | None = None) -> Sealed | None:
        """Writes a new file of a shard that includes its records in the runs of this version. :meth:`commit_folds` publishes
        it, here or in another process. Returns None if the shard has no room and must not grow: its records stay in the
        runs.

        Args:
            shard: its number, from 0.
            scratch: a folder for the working copy, instead of the store's own.

        Raises:
            IndexError: there is no such shard.
            Conflict: a vacuum has ruled out updates with a base as old as this.
        """
    def commit_folds(self, folds: Iterable[Sealed]) -> CompactReport:
        """Publishes a version with the files that :meth:`fold` has made of one version's shards. If another process has
        rewritten a shard since that version, the folded file of that shard is left out. At the end this store object moves
        to the newest version.

        Raises:
            Invalid: a file belongs to another store or version, is not a fold, or two files belong to one shard.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> new = store.insert_many(["a", "b", "c"])
        >>> folds = [store.fold(shard) for shard in store.to_fold(all=True)]
        >>> store.commit_folds(folds).folded == len(folds)
        True
        """
    def vacuum(self, *, keep: int = 1, grace: float = 86400.0) -> VacuumReport:
        """Removes old versions, files that only they name, and files of updates that can no longer be committed. Nothing else
        removes a file of the store, unless it was created so that its commits vacuum (``keep`` of :meth:`create`).

        Args:
            keep: the number of versions that stay at any age, the newest included.
            grace: the seconds that a version stays after the next one was made, so that readers and updates that began
                with it can finish.

        >>> import gowk
        >>> gowk.Store.create("crawl.store", shards=4).vacuum().versions
        0
        """
    def verify(self, progress: _Told | None = None) -> dict[int | str, Report | Error]:
        """Reads every page of every file that the version names, and compares it with its checksum and with the counters.

        Returns a report for each file. The key is the number of the shard, or the name of the run. If a file cannot be
        opened or is not the file that the version names, or if a run is damaged, the value is the exception instead. Only
        the store's own files are read, not the copies in ``copies``.

        Args:
            progress: called with the number of files read, and of all files. If it raises, the call ends.
        """
    def join_to(self, destination: _Path, progress: _Told | None = None) -> None:
        """Joins all shards of this version into one filter at ``destination``, where no file may exist. It answers as the
        store does, wrong answers included.

        Args:
            destination: the file.
            progress: called with the number of regions written, and of all regions. If it raises, the call ends.
        """
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Update:
    """Changes to a store, made on one version of it. Nobody sees them before their commit.

    :meth:`Store.update` begins one. It keeps the keys as records in memory, some 50 bytes each, and its commit writes
    them to one run. A shard that gets many keys gets a working copy and is rewritten instead: no shard before 8192 keys
    and a sixteenth of its entries, and every shard at one and a half times as many. As a context manager an update
    commits at the end of the block; an exception gives it up. Any number of updates may be made at the same time. Two
    updates conflict if both bring the same key, or if one brings a key of a shard that the other rewrites: the first to
    commit wins.

    An update belongs to the process that began it, and cannot be pickled; what :meth:`seal` returns may be.
    """
    @property
    def base(self) -> int:
        """The number of the version that the update is made on."""
    @property
    def touched(self) -> int:
        """How many shards a commit would change."""
    @property
    def committed(self) -> StoreCommit | None:
        """The outcome of the commit; None before it."""
    def update(self, keys: _Keys) -> None:
        """Like :meth:`insert_many`, without answers."""
    def insert_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Stores all keys in this update, as :meth:`Writer.insert_many` does in the open transaction; returns which are
        **new**: a NumPy array of bool, one a key, in their order.
        """
    def insert_many_at(self, keys: _Keys, times: _Times) -> InsertedAt:
        """Stores keys that were seen at these times in an update of a forgetting store, as :meth:`Writer.insert_many_at` does
        in a filter. The commit moves the store's time to the time of the latest key.
        """
    def insert_many_for(self, keys: _Keys, lifetimes: _Lifetimes) -> NDArray[np.bool_]:
        """Stores keys in an update of a forgetting store, each for a lifetime of its own, as :meth:`Writer.insert_many_for`
        does in a filter.
        """
    def remove_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Removes one copy of each key from a counting store; returns where there was one: a NumPy array of bool, one a key,
        in their order. See :meth:`Writer.remove`.

        Raises:
            WrongKind: the store is a set.
        """
    def seal(self, progress: _Told | None = None) -> list[Sealed]:
        """Ends the update: makes a sealed file of each working copy, and one run of all records, synced and in their places in
        the store. No version names these files before :meth:`Store.commit`, here or in another process.

        Args:
            progress: called with the number of files sealed, and of all files to seal. If it raises, the call ends.
        """
    def commit(self, *, rebase: bool = False) -> StoreCommit:
        """Ends the update: seals what was changed, and publishes a version with it.

        Raises the same errors as :meth:`Store.commit`. After an error the update is lost.

        Args:
            rebase: if other commits have inserted some of the same keys since the base, commit nevertheless instead of
                raising :class:`Conflict`: these keys count as not new. The outcome's ``rejudged`` counts them, and
                :meth:`rejudged` names them. An update that rewrites shards or has removed keys may still conflict.
        """
    def rejudged(self, keys: _Keys) -> NDArray[np.bool_]:
        """After ``commit(rebase=True)``: which of these keys another commit had inserted first, so that they were not new after
        all: a NumPy array of bool, one a key, in their order.

        >>> import gowk
        >>> store = gowk.Store.create("crawl.store", shards=4)
        >>> update = store.update()
        >>> update.insert_many(["a", "b"])
        array([ True,  True])
        >>> new = store.insert_many(["b", "c"])      # by another process
        >>> update.commit(rebase=True).rejudged
        1
        >>> update.rejudged(["a", "b"])
        array([False,  True])
        """
    def close(self) -> None:
        """Ends the update and gives up its changes. Closing again does nothing."""
    @property
    def closed(self) -> bool:
        """Whether the update has ended."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Sealed:
    """A new file of a shard, or a run, in its place in the store, that no version names yet. This object is only a
    description: the process that made the file sends it, by pickle or as text, to the process that commits.

    If it is never committed, a later vacuum removes the file.
    """
    @property
    def shard(self) -> int | None:
        """The number of the shard that was rewritten, from 0; ``None`` for a run, which may have records of any shards."""
    @property
    def base(self) -> int:
        """The number of the version that the file is based on."""
    @property
    def bytes(self) -> int:
        """Bytes of the file."""
    @property
    def entries(self) -> int:
        """Entries in the filter, or records in the run."""
    def to_json(self) -> str:
        """The value as text, which :meth:`from_json` reads."""
    @staticmethod
    def from_json(text: str) -> Sealed:
        """The value from text that :meth:`to_json` made.

        Raises:
            ValueError: the text was not made by :meth:`to_json`.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Distinct:
    """A set of keys that is thrown away with its last reference or at the end of a ``with`` block; see
    :meth:`Store.distinct`.

    >>> import gowk
    >>> store = gowk.Store.create("crawl.store", shards=4)
    >>> with store.distinct(1000) as batch:
    ...     batch.insert_many(["a", "b", "a"]), batch.insert_many(["b", "c"])
    (array([ True,  True, False]), array([False,  True]))
    """
    def __contains__(self, key: _Key, /) -> bool: ...
    def contains_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Looks up many keys: a NumPy array of bool, one a key, in their order."""
    def insert_many(self, keys: _Keys) -> NDArray[np.bool_]:
        """Stores all keys that are not found; returns which were **new**: a NumPy array of bool, one a key, in their order. Of
        equal keys, only the first can be new. A null has False.
        """
    def close(self) -> None:
        """Throws the set away. Closing again does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Job:
    r"""A resumable ingest job: files into a filter, each key exactly once, even if the process is killed.

    The job is a TOML file that names a filter or a store, inputs, and perhaps a file for the keys seen for the first
    time; ``gowk ingest --help`` shows one with all its keys. Paths in it are relative to its folder.

    Args:
        path: the job file.

    Raises:
        JobError: the job file is not valid. If it cannot be read, the exception is an :class:`OSError` too.

    >>> import gowk, pathlib
    >>> _ = pathlib.Path("urls.txt").write_text("https://example.org/\nhttps://example.com/\n")
    >>> _ = pathlib.Path("job.toml").write_text('''
    ... [filter]
    ... path = "seen.gowk"
    ... [input]
    ... paths = ["urls*.txt"]
    ... ''')
    >>> job = gowk.Job("job.toml")
    >>> job.run().run.new
    2
    >>> job.run().run.keys          # nothing new to read
    0
    """
    def __new__(cls, path: _Path) -> Self: ...
    @property
    def name(self) -> str:
        """The job's name, under which the filter remembers it."""
    @property
    def path(self) -> Path:
        """The job file."""
    @property
    def filter(self) -> Path | str:
        """The filter, or the store; of a store in a bucket, its address as text."""
    @property
    def output(self) -> Path | None:
        """The file for keys seen for the first time, or None."""
    def run(
        self,
        *,
        progress: Callable[[Progress | Committed], object] | None = None,
        restart: Sequence[_Path] | None = None,
        forget_missing: bool = False,
        new_output: bool = False,
        threads: int = 1,
        wait: float = 0.0,
    ) -> Summary:
        """Reads everything new in the inputs into the filter, and returns a summary.

        After an exception or a kill, all commits stay, and the next run goes on from the last commit. Ctrl-C commits the
        keys read until then, and raises :class:`KeyboardInterrupt`.

        Args:
            progress: called with a :class:`Progress` now and then, at least five times a second, and with a
                :class:`Committed` after each commit. If it returns False (not None), the run commits and ends; if it
                raises, the run commits, and the exception goes on.
            restart: inputs to read from their start, even if they were read before.
            forget_missing: forget finished inputs that are gone, to make room in the filter's metadata.
            new_output: begin a new output, even if one was written before.
            threads: threads that share the work of a batch.
            wait: seconds to wait for another writer to finish.

        Raises:
            JobError: an input, the output, or the cursor that the filter keeps for the job is not usable. Its attribute
                ``committed`` has the number of keys that this run committed, if any.
            Error: an operation on the filter failed.
        """
    def plan(
        self, *, restart: Sequence[_Path] | None = None, forget_missing: bool = False, new_output: bool = False
    ) -> Plan:
        """What :meth:`run` would do. Nothing changes, except that a filter whose writer died is recovered.

        Takes the same arguments and raises the same errors as :meth:`run`.
        """
    def forget(self, name: str | None = None) -> None:
        """Removes the cursor of a job from the filter, of this job unless another is named, so that its next run begins
        anew. The keys stay in the filter.

        Raises:
            JobError: the filter has no cursor of that job.
        """

def command(arguments: Sequence[str]) -> int:
    """Runs the command-line tool with these arguments; the first is the tool's name. Returns the exit code."""
def join(shards: Sequence[Reader], destination: _Path, progress: _Told | None = None) -> None:
    """Joins shards, given in their order, into one filter at ``destination``, where there must be none.

    All need the same seed and the same slots. The joined filter gives the same answers as the shards.

    Args:
        shards: all shards, or a group of them that makes up one shard of a coarser division.
        destination: the file.
        progress: called with the number of regions written, and of all regions. If it raises, the call ends.

    Raises:
        Invalid: the shards differ in a property that must be equal; the message names it.
    """
