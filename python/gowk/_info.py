"""What a filter says of itself, and what a job has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The filter after one of its next doublings, when it is full again; or as it is now, after a halving."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a filter may grow, and whether it does so by itself; see :meth:`gowk.Writer.set_limits`."""

    growth: Literal["auto", "never"]
    """Whether the filter doubles itself."""
    max_file_size: int | None
    """Bytes that the file may have at most; None for no limit."""
    max_false_positive_rate: float | None
    """The expected rate beyond which it does not double, above 0 and below 1; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A filter's shape, contents and expectations, as of its last commit.

    That of a :class:`~gowk.Writer` includes the open transaction.
    """

    format: tuple[int, int]
    """Major and minor version of the file's format."""
    uuid: UUID
    """The file's own number, random."""
    kind: Literal["set", "counting"]
    """What the filter is. A set holds each key once; a counting filter holds copies of keys, which can be removed."""
    key_rules: str | None
    """What the tool and jobs make of a key before it counts, such as ``"trim ignore-case=ascii"``; ``""`` for keys as they
    are, and None if this build does not know the rules."""
    hash: Literal["xxh3", "caller"]
    """Who hashes the keys."""
    seed: int = field(repr=False)
    """The seed of the hash. Whoever knows it can craft keys that collide, so the representation does not show it."""
    slots_per_bucket: int
    """Slots in each bucket, 2 to 7."""
    shards: int
    """How many shards divide all keys; 1 for a filter that takes every key."""
    shard: int
    """Which of them the filter holds, from 0."""
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
    """The expected rate beyond which it does not double; None for no limit."""
    slots: int
    """Slots of all buckets."""
    entries: int
    """Slots that hold an entry: one for each distinct key, or more."""
    digits: int
    """Slots that hold a digit, which counts copies of an entry."""
    saturated: int
    """Entries whose copies have reached the highest count. They stay for good, whatever is removed."""
    copies: int
    """Copies of all keys: those inserted, less those removed."""
    inserted: int
    """Copies ever inserted."""
    removed: int
    """Copies removed."""
    entries_by_tail: tuple[int, ...]
    """Entries by the bits of their tail. A new entry has the most bits, and loses one with each doubling."""
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
    """The filter after :meth:`gowk.Writer.shrink`, if it has doubled and its entries take no more slots than it would
    have. They may still find no room where that is close."""
    commit: int
    """The number of the last commit."""
    file_length: int
    """Bytes of the file."""
    journal_length: int
    """Bytes of commits in the journal, which the next checkpoint empties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedPage:
    """A page of 4096 bytes that does not hold what was written."""

    page: int
    """Its number, counted in pages from the first region."""
    region: int
    """The region it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What :meth:`gowk.Reader.verify` found."""

    is_clean: bool
    """Whether nothing is wrong."""
    pages: int
    """Data pages read."""
    damaged: tuple[DamagedPage, ...]
    """Those that do not match their checksum, ascending."""
    malformed: tuple[DamagedPage, ...]
    """Those that match their checksum but hold what no writer stores, ascending."""
    superblock_damaged: bool
    """One of the two superblocks is damaged; the other serves."""
    counts_differ: bool
    """Entries found are not those that the filter counts, although every page is intact."""
    live_differs: bool
    """The live area is of another commit than the superblock, which shows that a write was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What :meth:`gowk.Writer.repair` did."""

    is_empty: bool
    """Whether nothing needed repair."""
    quarantined: tuple[DamagedPage, ...]
    """The pages whose slots now match every key, ascending."""
    superblock: bool
    """A damaged superblock was written anew from the other one."""
    live: bool
    """The live area was written anew."""
    recounted: bool
    """The counters were wrong, and are now those of a scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Records of a job, and what became of them."""

    keys: int
    """Keys inserted."""
    new: int
    """Of these, keys not seen before."""
    empty: int
    """Records skipped because their key is empty."""
    too_long: int
    """Records skipped because their key is too long."""
    no_field: int
    """Records skipped because the field is not in them, or does not hold a single value."""

    @property
    def seen(self) -> int:
        """Keys that were seen before."""
        return self.keys - self.new

    @property
    def read(self) -> int:
        """All records read."""
        return self.keys + self.empty + self.too_long + self.no_field


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run of a job is."""

    input: Path | None
    """The input being read; None before the first."""
    bytes: int
    """Bytes of the inputs, as they are on the disk, that this run has read."""
    of_bytes: int
    """Bytes that it has to read, as the inputs were when it began."""
    tally: Tally
    """The records found by this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """All keys of a job until now are durable and visible."""

    number: int
    """The filter's number of the commit."""
    keys: int
    """Keys taken from the inputs so far in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSummary:
    """One input that a run has read from."""

    path: Path
    tally: Tally
    """The records found in it, with those of earlier runs that were stopped within it."""
    finished: bool
    """Whether it was read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run of a job has done."""

    inputs: tuple[InputSummary, ...]
    """The inputs it has read from."""
    finished_before: int
    """Inputs that earlier runs had read to their end, and that have not grown since."""
    run: Tally
    """What this run has found."""
    total: Tally
    """What the job has found in all its runs."""
    finished: bool
    """Whether all inputs are read to their end; False if the run was stopped."""
    seconds: float
    """How long the run took."""
    filter: Info
    """The filter afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """One input of a job, and how much of it was read."""

    path: Path
    length: int
    """Bytes of the file."""
    state: Literal["new", "finished", "grown", "half read"]
    """What earlier runs have read of it: nothing; all; all that it held then; a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run of a job would do."""

    inputs: tuple[PlannedInput, ...]
    """In the order in which they would be read."""
    filter_exists: bool
    """Whether the filter is there; else it would be created."""
    output: Path | None
    """The output, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFile:
    """The file of a shard, as a version of a store names it. It never changes."""

    shard: int
    """The number of the shard, from 0."""
    name: str
    """The file's own name, which no other file has or will have."""
    path: Path
    """Where it is in the store."""
    bytes: int
    """Its length."""
    uuid: UUID
    """The filter's own number, random."""
    commit: int
    """The number of the filter's last commit."""
    entries: int
    """Entries in the filter."""
    expected_false_positive_rate: float
    """The chance that a key of this shard is found that was never inserted, 0 to 1."""
    since: int
    """The number of the version in which the file came into the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreToken:
    """The last idempotency token of an application that committed to a store."""

    application: str
    """Who made it."""
    number: int
    """Its number; each is higher than that of the application's token before."""
    version: int
    """The number of the version that it made."""
    base: int
    """The number of the version that it was based on: as the store was before it."""
    state: str
    """What the application keeps with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVersion:
    """A version of a store: the whole of it at one moment."""

    number: int
    """Its number. Each version follows the one with the number below."""
    time: datetime
    """When it was made, by the clock of whoever made it."""
    operation: str
    """What made it, in a word."""
    base: int
    """The number of the version that its changes were made on."""
    first: int
    """The lowest number of a version that a vacuum may have left."""
    fence: int
    """Updates that are based on versions below this cannot be committed any more."""
    files: int
    """Shards that have a file; the others have nothing but what is pending for them."""
    runs: int
    """Runs that are not folded into all shards."""
    pending: int
    """Records in all runs."""
    run_bytes: int
    """Bytes of all runs."""
    entries: int
    """Entries in all shards."""
    bytes: int
    """Bytes of all files of shards."""
    tokens: Mapping[str, StoreToken]
    """The last token of each application, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """What a store is, which was fixed when it was created, and one version of it in numbers."""

    uuid: UUID
    """The store's own number, random."""
    shards: int
    """How many shards divide all keys."""
    kind: Literal["set", "counting"]
    """What all shards are; see :attr:`Info.kind`."""
    key_rules: str
    """What the tool and jobs make of a key before it counts; see :attr:`Info.key_rules`."""
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
    """The expected rate beyond which a shard does not double; None for no limit."""
    version: int
    """The number of the version."""
    files: int
    """Shards that have a file; the others are empty."""
    entries: int
    """Entries in all shards: one for each distinct key, or more."""
    bytes: int
    """Bytes of all files of shards."""
    bits_per_key: float | None
    """Bits of the files per entry; None while there are none."""
    expected_false_positive_rate: float
    """The chance that a key never inserted is found, 0 to 1."""
    highest_false_positive_rate: float
    """The highest rate of a shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommit:
    """How a commit to a store came out that did not fail."""

    outcome: Literal["new", "already", "unchanged"]
    """It made a version; or its token, or a later one of the application, had been committed before; or there was
    nothing to change."""
    version: int | None
    """The number of the version that it made, or that the first commit with its token had made; None if there was nothing
    to change."""
    token: StoreToken | None
    """What had been committed before, if it was ``"already"``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    """What :meth:`gowk.Store.compact` has done."""

    version: int | None
    """The number of the last version that it made; None if there was nothing to do."""
    folded: int
    """Shards whose files were written anew."""
    full: int
    """Shards that have no room for what is pending for them, and must not grow."""
    bytes: int
    """Bytes of the new files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What :meth:`gowk.Store.vacuum` has removed."""

    version: int | None
    """The number of the version that the vacuum made; None if none was needed."""
    versions: int
    """Versions removed."""
    files: int
    """Files of shards and runs removed, and what updates and commits had left."""
    bytes: int
    """Bytes of all these."""
    foreign: int
    """Files and folders that are none of a store's. They stay."""
