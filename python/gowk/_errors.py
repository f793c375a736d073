"""What gowk refuses, cannot do, or finds wrong. Each message names the file, the place and the remedy."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Whatever gowk refuses, cannot do, or finds wrong with a file.

    Unless a subclass says otherwise, nothing was changed and the call may be repeated. The details are attributes, as
    the subclasses list them. What the operating system refused is an :class:`OSError` too, with ``errno`` and
    ``filename``.
    """

    def __init__(self, message: str = "", **details: Any) -> None:
        if isinstance(self, OSError):
            OSError.__init__(self, details.pop("errno", None), message, details.pop("filename", None))
        else:
            super().__init__(message)
        self.message = message
        self.__dict__.update(details)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        details = dict(self.__dict__)
        if isinstance(self, OSError):
            details |= {"errno": self.errno, "filename": self.filename}
        return _rebuilt, (_listed(type(self)).__name__, details)


def _made(name: str, message: str, **details: Any) -> Error:
    """The exception of that name. What the system refused is of Python's own kind for its errno, too."""
    kind: type[Error] = globals()[name]
    if issubclass(kind, OSError):
        system = type(OSError(details.get("errno"), ""))
        if not issubclass(kind, system):
            kind = _mixed(kind, system)
    return kind(message, **details)


_mixes: dict[tuple[str, str], type[Error]] = {}


def _mixed(kind: type[Error], system: type[OSError]) -> type[Error]:
    names = (kind.__name__, system.__name__)
    if names not in _mixes:
        body = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _mixes[names] = type(kind.__name__, (kind, system), body)
    return _mixes[names]


def _listed(kind: type[Error]) -> type[Error]:
    """The class of this module that an exception is of, without what was mixed in."""
    listed: list[type[Error]] = [base for base in kind.__mro__ if globals().get(base.__name__) is base]
    return listed[0]


def _rebuilt(name: str, details: dict[str, Any]) -> Error:
    message = details.pop("message", "")
    notes = details.pop("__notes__", ())
    error = _made(name, message, **details)
    for note in notes:
        error.add_note(note)
    return error


class Io(Error, OSError):
    """The operating system refused."""

    path: str
    """The file or folder."""
    op: str
    """What was tried, as a verb phrase."""


class NotFound(Error, FileNotFoundError):
    """The filter to open is not there."""

    path: str


class Exists(Error, FileExistsError):
    """Creation found something in its way."""

    path: str


class NotGowk(Error):
    """The file does not begin as a gowk filter does."""

    path: str


class Version(Error):
    """The file was written in a format that this build cannot read."""

    path: str
    found: tuple[int, int]
    supported: tuple[int, int]


class Features(Error):
    """The file uses features that this build does not know, and must know to go on."""

    path: str
    bits: int
    access: str
    """What they are needed for: ``reading`` or ``writing``."""


class Superblocks(Error):
    """Neither copy of the superblock can be trusted."""

    path: str


class Field(Error):
    """A superblock with a right checksum holds a value that is not allowed."""

    path: str
    field: str
    """Its name in the specification."""
    found: int


class Length(Error):
    """The file has another length than its superblock says."""

    path: str
    expected: int
    """Bytes by the superblock."""
    found: int
    """Bytes there are."""


class HashMismatch(Error):
    """This build's hash function gives other hashes than the build that wrote the file."""

    path: str


class CallerHashes(Error):
    """The filter's keys are hashed by its users, which Python does not offer."""

    path: str


class OtherShard(Error):
    """A key was given to the filter of a shard that it does not belong to."""

    path: str
    shard: int
    """The filter's shard, from 0."""
    shards: int
    """How many shards there are."""
    belongs: int
    """The key's shard."""


class NotSealed(Error):
    """The filter was to be opened as a sealed one, and is not at a checkpoint or not closed."""

    path: str


class Indivisible(Error):
    """The filter cannot be divided into so many shards of one size."""

    path: str
    regions: int
    parts: int


class Unlike(Error):
    """Two filters that were to be joined or merged differ in what must be equal."""

    path: str
    other: str


class Damaged(Error):
    """A page does not match its checksum."""

    path: str
    region: int
    """The page's region."""
    page: int
    """Its number, counted in pages of 4096 bytes from the first region."""


class Journal(Error):
    """The journal is damaged, or belongs to another filter or to another state of this one."""

    path: str


class Locked(Error):
    """Another process, or another :class:`~gowk.Writer` of this one, writes to the filter."""

    path: str


class MountPoint(Error):
    """Something is mounted at the file's own path."""

    path: str


class Stalled(Error):
    """Another process has been opening the filter for too long."""

    path: str


class NameTaken(Error):
    """Another file has taken the filter's name while a writer had it."""

    path: str


class HardLinks(Error):
    """The file has several names, and a writer needs a file with one."""

    path: str
    links: int


class Full(Error):
    """No room for one more entry, and the filter must not grow."""

    path: str
    region: int
    load: float
    """Slots in use divided by all slots: 0 to 1."""


class Growth(Error):
    """No room for one more entry, and growing would not be right."""

    path: str


class UnsafeRemove(Error):
    """Some inserts stored no entry of their own, so that removing could lose other keys."""

    path: str
    unrecorded: int
    """How many such inserts."""
    other_keys: float
    """How many keys among them are expected to share the entry of another key, at most."""


class Poisoned(Error):
    """An earlier write failed and its outcome is unknown, or the writer is closed."""

    path: str


class Unknown(Error):
    """A commit failed, and nobody knows whether it is durable; the cause is ``__cause__``.

    Open the filter again: at commit :attr:`commit` or higher it is durable, below that it is not.
    """

    path: str
    commit: int


class AfterCommit(Error):
    """Every commit is durable, but something after the last one failed; the cause is ``__cause__``."""

    path: str
    commit: int


class MetadataFull(Error):
    """The metadata is too long."""

    path: str
    needed: int
    """Bytes of all entries together, as encoded."""
    limit: int
    """Bytes there are."""


class NoSpace(Error, OSError):
    """The file system has too little room."""

    path: str
    needed: int
    available: int


class Option(Error, ValueError):
    """An option outside its range."""

    option: str
    found: str
    expected: str


class Rate(Error):
    """An existing filter is not as selective as asked."""

    path: str
    rate: float
    wanted: float


class Replaced(Error):
    """The file was replaced by a filter that hashes otherwise."""

    path: str


class Busy(Error):
    """A reader found no moment at which the file was not being changed."""

    path: str
    op: str
    """What was being done: ``read``, ``verified`` or ``copied``."""


class Shrink(Error):
    """The filter cannot be halved; the message says why."""

    path: str


class StoreError(Error):
    """Whatever a store refuses, or is wrong with one of its own files; those of its filters are errors of filters."""

    path: str


class NotAStore(StoreError, FileNotFoundError):
    """The folder is no store."""


class NoVersions(StoreError):
    """A store has no version at all."""


class StoreDamaged(StoreError):
    """``store.toml`` or a version file is not what was written."""


class StoreFormat(StoreError):
    """``store.toml`` or a version file was written in a format that this build cannot read."""

    found: int
    supported: int


class StoreText(StoreError):
    """``store.toml`` or a version file has a right checksum, but does not read as one."""


class StoreField(StoreError):
    """A field of ``store.toml`` or of a version file holds a value that is not allowed."""

    field: str
    """Its name in the specification."""
    found: str
    expected: str


class NoSuchVersion(StoreError, LookupError):
    """There is no version of this number: it was vacuumed, or never made."""

    number: int
    newest: int
    """The number of the newest version."""


class Conflict(StoreError):
    """Another commit has changed the same shard since the version that the update is based on. Nothing was committed."""

    shard: int
    """The shard that both changed."""
    base: int
    """The version that the update is based on."""
    version: int
    """The version that won."""


class Expired(StoreError):
    """A vacuum has given up all updates that are based on versions as old as this. Nothing was committed."""

    base: int
    """The version that the update is based on."""
    fence: int
    """Updates based on versions below this are void."""


class MissingFile(StoreError):
    """The file of a shard is not there, although a version names it."""

    version: int


class Vacuumed(StoreError):
    """A version that is being read has been vacuumed, and with it a file that it names."""

    version: int


class WrongFile(StoreError):
    """A file is not the one that a version, or a sealed shard, names."""

    what: str
    """What differs: ``length``, ``uuid``, ``commit``, ``shard`` or the like."""
    found: str
    expected: str


class Misfit(StoreError, ValueError):
    """A sealed shard does not belong into this commit."""

    what: str
    """What differs: ``store``, ``base``, ``shard``."""
    found: str
    expected: str


class StoreUnknown(StoreError):
    """A commit failed, and nobody knows whether its version is durable; the cause is ``__cause__``.

    Commit again with the same token, or look for the version in the history of the store.
    """

    version: int


class StoreBusy(StoreError):
    """Versions came and went faster than they could be read."""


class JobError(Error):
    """A job cannot be run, or not any further: its file, an input, its output or what the filter remembers of it.

    If a run had committed keys before, :attr:`committed` says how many; running the job again goes on from there.
    """

    committed: int
    """Keys of this run that are committed. Errors of the filter have it too, if a job met them."""


class JobInput(JobError):
    """An input of a job cannot be read, or is not what was read before."""

    path: str


class JobOutput(JobError):
    """The output of a job cannot be written, or is not what the job wrote."""

    path: str


class JobOvertaken(JobError):
    """Another run of the same job has committed to the store meanwhile."""

    path: str
    """The store."""


class JobSystem(JobError, OSError):
    """The operating system refused a file of a job."""


__all__ = [
    "AfterCommit",
    "Busy",
    "CallerHashes",
    "Conflict",
    "Damaged",
    "Error",
    "Exists",
    "Expired",
    "Features",
    "Field",
    "Full",
    "Growth",
    "HardLinks",
    "HashMismatch",
    "Indivisible",
    "Io",
    "JobError",
    "JobInput",
    "JobOutput",
    "JobOvertaken",
    "JobSystem",
    "Journal",
    "Length",
    "Locked",
    "MetadataFull",
    "Misfit",
    "MissingFile",
    "MountPoint",
    "NameTaken",
    "NoSpace",
    "NoSuchVersion",
    "NoVersions",
    "NotAStore",
    "NotFound",
    "NotGowk",
    "NotSealed",
    "Option",
    "OtherShard",
    "Poisoned",
    "Rate",
    "Replaced",
    "Shrink",
    "Stalled",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreField",
    "StoreFormat",
    "StoreText",
    "StoreUnknown",
    "Superblocks",
    "Unknown",
    "Unlike",
    "UnsafeRemove",
    "Vacuumed",
    "Version",
    "WrongFile",
]
