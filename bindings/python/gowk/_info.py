"""Descriptions of filters and stores, and reports of jobs and other operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A filter in the future: after one of its next doublings, when it is full again; or after a halving of its present
    entries.
    """

    generation: int
    """How often it would have doubled."""
    entries: int
    """Entries it would hold."""
    expected_false_positive_rate: float
    """The expected rate then, 0 to 1."""
    bits_per_key: float
    """Bits of the file per entry then."""
    void_entries: int
    """Entries without a tail, which a doubling copies to both sides."""
    file_length: int
    """Bytes of the file then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InsertedAt:
    """The outcome of inserting keys with the times when they were seen."""

    new: NDArray[np.bool_]
    """Whether each key is new, in their order. A late or early key is not."""
    late: NDArray[np.int64]
    """The indices of the keys that would be forgotten already, by their times. They were not stored."""
    early: NDArray[np.int64]
    """The indices of the keys that are more than five minutes ahead of the clock. They were not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Whether a filter grows by itself, and how far it may; see :meth:`gowk.Writer.set_limits`."""

    growth: Literal["auto", "never"]
    """Whether the filter doubles itself."""
    max_file_size: int | None
    """Bytes that the file may have at most; None for no limit."""
    max_false_positive_rate: float | None
    """The highest expected rate that a doubled filter may have when it is full again, above 0 and below 1; None for no
    limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A filter's shape, contents and expected rates, as of its last commit.

    A :class:`~gowk.Writer` includes its open transaction.
    """

    format: tuple[int, int]
    """Major and minor version of the file's format."""
    uuid: UUID
    """The file's own number, random."""
    kind: Literal["set", "counting", "forgetting"]
    """The filter's kind. A set holds each key once; a counting filter holds copies of keys, which can be removed; a
    forgetting one keeps each key for some time."""
    forget_after: timedelta | None
    """How long a forgetting filter keeps a key at least; None if it does not forget."""
    forget_within: timedelta | None
    """How much longer it keeps the key at most, as long as its time goes on."""
    refresh: bool
    """Whether that time counts from when the key was last seen, and not from when it was first seen."""
    time: datetime | None
    """The time that a forgetting filter has come to; None before its first key."""
    keep_newest: tuple[int, int] | None
    """Of a filter that keeps the newest keys: how many at least, and at most."""
    key_rules: str | None
    """How the tool and jobs change a key before they hash it, such as ``"trim ignore-case=ascii"``; ``""`` if they do not
    change it, and None if this build does not know the rules."""
    hash: Literal["xxh3", "caller"]
    """Who hashes the keys."""
    seed: int = field(repr=False)
    """The seed of the hash. An attacker who knows it can craft keys that collide, so the representation does not show it."""
    slots_per_bucket: int
    """Slots in each bucket, 2 to 7."""
    shards: int
    """How many shards divide all keys; 1 for a filter that takes every key."""
    shard: int
    """The number of the shard that the filter holds, from 0."""
    base_regions: int
    """Regions when the filter was created."""
    generation: int
    """How often it has doubled since."""
    regions: int
    """Regions now; each has 8192 buckets."""
    capacity: int
    """Keys asked for at creation."""
    requested_false_positive_rate: float | None
    """The rate asked for at creation; None if slots per bucket were given instead."""
    growth: Literal["auto", "never"]
    """Whether the filter doubles itself."""
    max_file_size: int | None
    """Bytes that the file may have at most; None for no limit."""
    max_false_positive_rate: float | None
    """The highest expected rate that a doubled filter may have when it is full again; None for no limit."""
    slots: int
    """Slots of all buckets."""
    entries: int
    """Slots that hold an entry: one for each distinct key, or more."""
    digits: int
    """Slots that hold a digit, which counts copies of an entry."""
    saturated: int
    """Entries whose copies have reached the highest count. No removal changes them."""
    copies: int
    """Copies of all keys: inserted minus removed."""
    inserted: int
    """Copies ever inserted; copies of keys whose entry was saturated already are not counted."""
    removed: int
    """Copies removed; copies of keys whose entry was saturated are not counted."""
    entries_by_tail: tuple[int, ...]
    """Entries by the bits of their tail: element t counts the entries with t bits. A new entry has the most bits, and
    loses one with each doubling."""
    quarantined_buckets: int
    """Buckets that repair has filled with slots that match everything."""
    load: float
    """Slots in use, by entries, digits and quarantine, divided by all slots: 0 to 1."""
    bits_per_key: float | None
    """Bits of the file per entry; None while there are none."""
    expected_false_positive_rate: float
    """The chance that a key never inserted is found now, 0 to 1."""
    forecast: tuple[Forecast, ...]
    """The filter after each of its next doublings, up to eight, as far as the limits allow them."""
    shrunk: Forecast | None
    """The filter after :meth:`gowk.Writer.shrink`. None if it has never doubled, or if more slots are in use than it would
    have. If the load would be high, shrinking may still find no room."""
    commit: int
    """The number of the last commit."""
    file_length: int
    """Bytes of the file."""
    journal_length: int
    """Bytes of commits in the journal; the next checkpoint empties it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPage:
    """A damaged page of 4096 bytes."""

    page: int
    """Its number, counted in pages from the first region."""
    region: int
    """The region it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """How many entries of a forgetting filter or store expire at one time."""

    at: int
    """When: in milliseconds since 1970. In a filter of the newest keys, how many keys it will have stored at that point,
    as :attr:`Info.inserted` counts them."""
    entries: int
    """The entries that expire then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of :meth:`gowk.Reader.verify`."""

    is_clean: bool
    """Whether nothing is wrong."""
    pages: int
    """Data pages read."""
    damaged: tuple[DamagedPage, ...]
    """Pages that do not match their checksum, ascending."""
    malformed: tuple[DamagedPage, ...]
    """Pages that match their checksum but hold slots that no writer stores, ascending."""
    superblock_damaged: bool
    """Whether one of the two superblocks is damaged; the other is used."""
    counts_differ: bool
    """Whether the counters differ from the entries found, although every page is intact."""
    live_differs: bool
    """Whether the live area names another commit than the superblock, which shows that a write was lost."""
    expiries: tuple[Expiry, ...]
    """When the entries of a forgetting filter expire, and how many, by time, without those in damaged pages. The first have
    expired if that time has come, but no sweep has emptied them yet. Empty for other kinds, and beside a writer that came
    to another epoch meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The changes made by :meth:`gowk.Writer.repair`."""

    is_empty: bool
    """Whether nothing needed repair."""
    quarantined: tuple[DamagedPage, ...]
    """The pages whose slots now match every key, ascending."""
    marked: bool
    """Whether the file was written anew with markers, which such slots need: the rate of its entries has doubled. This
    happens once, to a set or a forgetting filter that has never doubled."""
    superblock: bool
    """Whether a damaged superblock was written anew from the other one."""
    live: bool
    """Whether the live area was written anew."""
    recounted: bool
    """Whether the counters were wrong and were replaced by counts of a scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The records of a job, counted by outcome."""

    keys: int
    """Keys inserted."""
    new: int
    """Of these, keys not seen before."""
    empty: int
    """Records skipped because their key is empty."""
    too_long: int
    """Records skipped because their key is too long."""
    no_field: int
    """Records that lack the field, or whose field does not hold a single value. They are skipped, unless the job says
    ``missing = "keep"``."""
    malformed: int
    """Records skipped because they are malformed. Only a job with ``rejects`` skips them."""
    no_time: int
    """Records that have a key, but no valid time. They are skipped, unless the job keeps them."""
    late: int
    """Of these, keys that were seen so long ago that the filter has forgotten that time."""
    early: int
    """Of these, keys that were seen more than five minutes in the future."""

    @property
    def seen(self) -> int:
        """Keys that were seen before."""
        return self.keys - self.new - self.late - self.early

    @property
    def read(self) -> int:
        """All records read."""
        return self.keys + self.empty + self.too_long + self.no_field + self.malformed + self.no_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run of a job."""

    input: Path | None
    """The input being read; None before the first."""
    bytes: int
    """Bytes of the inputs, as they are on the disk, that this run has read."""
    of_bytes: int
    """Bytes that it has to read in all, by the lengths of the inputs when it began."""
    tally: Tally
    """The records found by this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """All keys of a job until now are durable and visible."""

    number: int
    """The number of the filter's commit."""
    keys: int
    """Keys that this run has taken from the inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests to the server of a store in a bucket, by kind, with all that were repeated."""

    put: int
    """Objects put, or parts of them."""
    get: int
    """Objects read, or parts of them."""
    head: int
    """Objects measured."""
    list: int
    """Pages of listings, of at most 1,000 names each."""
    delete: int
    """Objects deleted, or uploads given up."""
    post: int
    """Uploads of several parts begun and ended."""
    failed: int
    """Requests, of all these, without an answer or with the answer to try again (429 or 5xx). Most were repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSummary:
    """One input that a run has read from."""

    path: Path
    tally: Tally
    """The records found in it, also by earlier runs that stopped within it."""
    finished: bool
    """Whether it was read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcome of a run of a job."""

    inputs: tuple[InputSummary, ...]
    """The inputs it has read from."""
    finished_before: int
    """Inputs that earlier runs had read to their end, and that have not grown since."""
    run: Tally
    """The records of this run."""
    total: Tally
    """The records of all runs of the job."""
    finished: bool
    """Whether all inputs are read to their end; False if the run was stopped."""
    seconds: float
    """How long the run took."""
    filter: Info
    """The filter afterwards."""
    requests: Requests | None
    """The requests that the run has made to the server of a store in a bucket; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """One input of a job, and how much of it was read."""

    path: Path
    length: int
    """Bytes of the file."""
    state: Literal["new", "finished", "grown", "half read"]
    """How much of it earlier runs have read: nothing (``new``), everything (``finished``), everything that it held then
    (``grown``), or a part (``half read``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run of a job would do."""

    inputs: tuple[PlannedInput, ...]
    """The inputs, in reading order."""
    filter_exists: bool
    """Whether the filter exists; else the run would create it."""
    output: Path | None
    """The output, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFile:
    """The file of a shard, as a version of a store names it. It never changes."""

    shard: int
    """The number of the shard, from 0."""
    name: str
    """The file's own name, which no other file has or will have."""
    path: Path | str
    """Where it is in the store; in a bucket, its address as text."""
    bytes: int
    """Its length."""
    uuid: UUID
    """A random number that identifies the filter."""
    commit: int
    """The number of the filter's last commit."""
    entries: int
    """Entries in the filter."""
    expected_false_positive_rate: float
    """The chance that a key of this shard that was never inserted is found, 0 to 1."""
    since: int
    """The number of the first version with this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreToken:
    """The last idempotency token of an application that committed to a store."""

    application: str
    """The application that committed it."""
    number: int
    """Its number, higher than the number of the application's last token."""
    version: int
    """The number of the version that it made."""
    base: int
    """The number of the version that its commit was based on."""
    state: str
    """The text that the application keeps with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVersion:
    """A version of a store: the whole of it at one moment."""

    number: int
    """Its number: one more than the previous version's."""
    time: datetime
    """When it was made, by the clock of the process that made it."""
    operation: str
    """A word for the operation that made it."""
    base: int
    """The number of the version that its changes were made on."""
    first: int
    """The lowest number of a version that a vacuum may have left."""
    fence: int
    """Updates based on versions below this cannot be committed any more."""
    files: int
    """Shards that have a file; all others have only records in runs."""
    entries: int
    """Entries in all shards, and records in all runs."""
    bytes: int
    """Bytes of all files of shards, and of all runs."""
    tokens: Mapping[str, StoreToken]
    """The last token of each application, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """The properties of a store, which were fixed when it was created, and one version of it in numbers."""

    uuid: UUID
    """A random number that identifies the store."""
    shards: int
    """How many shards divide all keys."""
    kind: Literal["set", "counting", "forgetting"]
    """The kind of all shards; see :attr:`Info.kind`."""
    forget_after: timedelta | None
    """How long a forgetting store keeps a key at least; None if it does not forget."""
    forget_within: timedelta | None
    """How much longer it keeps the key at most, as long as its time goes on."""
    refresh: bool
    """Whether that time counts from when the key was last seen, and not from when it was first seen."""
    time: datetime | None
    """The time that a forgetting store has come to; None before its first key."""
    key_rules: str
    """How the tool and jobs change a key before they hash it; see :attr:`Info.key_rules`."""
    hash: Literal["xxh3", "caller"]
    """Who hashes the keys."""
    seed: int = field(repr=False)
    """The seed of the hash, in all shards. The representation does not show it."""
    slots_per_bucket: int
    """Slots in each bucket, in all shards: 2 to 7."""
    requested_false_positive_rate: float | None
    """The rate asked for at creation; None if slots per bucket were given instead."""
    capacity: int
    """Keys asked for at creation, in all shards together."""
    growth: Literal["auto", "never"]
    """Whether shards double themselves."""
    max_file_size: int | None
    """Bytes that the file of a shard may have at most; None for no limit."""
    max_false_positive_rate: float | None
    """The highest expected rate that a doubled shard may have when it is full again; None for no limit."""
    version: int
    """The number of the version."""
    files: int
    """Shards that have a file; all others have only records in runs."""
    runs: int
    """Runs that are not folded into all shards."""
    pending: int
    """Records in all runs. Records that a shard has folded already count until their run is merged."""
    run_bytes: int
    """Bytes of all runs."""
    entries: int
    """Entries in all shards: one for each distinct key, or more; and ``pending``."""
    bytes: int
    """Bytes of all files of shards, and of all runs."""
    bits_per_key: float | None
    """Bits of the files per entry; None while there are none."""
    expected_false_positive_rate: float
    """The chance that a key never inserted is found, 0 to 1."""
    highest_false_positive_rate: float
    """The highest rate of a shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommit:
    """The outcome of a commit to a store that did not fail."""

    outcome: Literal["new", "already", "unchanged"]
    """``new``: the commit made a version. ``already``: its token had been committed before; nothing was stored.
    ``unchanged``: there was nothing to change."""
    version: int | None
    """The number of the version that it made, or that the first commit with its token had made; None if there was nothing
    to change."""
    token: StoreToken | None
    """The token that had been committed before, if the outcome is ``"already"``."""
    rejudged: int = 0
    """Keys that were new when they were inserted, and that another commit inserted before this one; see
    :meth:`gowk.Update.commit`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    """What :meth:`gowk.Store.compact` or :meth:`gowk.Store.commit_folds` has done."""

    version: int | None
    """The number of the last version that it made; None if there was nothing to do, or others had done it."""
    folded: int
    """Shards whose files were written anew."""
    full: int
    """Shards that must not grow and have no room for their records in runs. These records stay in the runs."""
    bytes: int
    """Bytes of the new files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """The files removed by :meth:`gowk.Store.vacuum`."""

    version: int | None
    """The number of the version that the vacuum made; None if none was needed."""
    versions: int
    """Versions removed."""
    files: int
    """Files removed: files of shards and runs, and files that updates and commits had left."""
    bytes: int
    """Bytes of all these."""
    foreign: int
    """Files and folders that do not belong to the store. They stay."""
    uploads: int
    """Uploads that killed processes had left in a bucket, given up now. Their bytes are not known."""
    uploads_hidden: bool
    """Whether the server would not list such uploads, so that they stay."""
