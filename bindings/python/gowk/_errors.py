"""The exceptions of gowk. Each message names the file, the place and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Error(Exception):
    """The base class of all errors of gowk.

    There is one subclass for each kind of error, and more for jobs. Unless a subclass says otherwise, nothing was changed
    and the call may be repeated. An error of the operating system is an :class:`OSError` too, with ``errno`` and
    ``filename``.
    """

    path: str | None = None
    """The file or folder; None if the error has none."""
    taken: int | None = None
    """If many keys were given, and some may be stored: how many keys, from the first on."""
    mask: NDArray[np.bool_] | None = None
    """The answers for these keys."""

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
    """The exception of that name. An error of the operating system is also of Python's own class for its errno."""
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
    """The class of this module that an exception belongs to, without the class that was mixed in."""
    listed: list[type[Error]] = [base for base in kind.__mro__ if globals().get(base.__name__) is base]
    return listed[0]


def _rebuilt(name: str, details: dict[str, Any]) -> Error:
    message = details.pop("message", "")
    notes = details.pop("__notes__", ())
    error = _made(name, message, **details)
    for note in notes:
        error.add_note(note)
    return error


class NotFound(Error, FileNotFoundError):
    """There is no such filter, store, folder or version."""


class Exists(Error, FileExistsError):
    """Something of this name is there already."""


class Foreign(Error):
    """The file is not a filter, or the folder not a store."""


class Unsupported(Error):
    """The file needs another version of gowk."""


class Damaged(Error):
    """The bytes read are not the bytes written. Verify, then restore a copy or repair."""

    region: int | None = None
    """The region of the damaged page; None if the damage is not in one page."""
    page: int | None = None
    """The damaged page, by its number in pages of 4096 bytes; None if the damage is not in one page."""


class Locked(Error):
    """Another process, or another :class:`~gowk.Writer` of this one, has the filter."""


class Busy(Error):
    """The filter kept changing while it was read. Try again."""


class NoRoom(Error):
    """The filter has no room for a key, and must not grow."""

    refused: int | None = None
    """Of many keys: how many had no room. The others were taken."""
    index: int | None = None
    """Of many keys: the index of the first that had no room."""


class NoSpace(Error, OSError):
    """The file system has too little room."""


class WrongKind(Error):
    """The filter or store is of the wrong kind, such as a set from which a copy should be removed."""


class WrongClock(Error):
    """By the clock, or by the time of a key, a forgetting filter or store would forget every key at once; or the clock is
    more than five minutes behind its time. Correct the clock, or say ``clock_is_right``.
    """


class Invalid(Error, ValueError):
    """An argument, an option or a combination of filters that is not allowed."""


class Replaced(Error):
    """Another file has taken the filter's name. Open it again."""


class Uncommitted(Error):
    """A writer was closed with changes that were never committed. They are lost, and the writer is closed."""


class Conflict(Error):
    """Another commit to the store came first, or a vacuum has ruled out updates as old as this one. Nothing was
    committed: make the update again on the newest version.
    """

    shard: int | None = None
    """The shard that both commits changed; None after a vacuum."""
    base: int | None = None
    """The version that the update is based on."""
    version: int | None = None
    """The version that won; None after a vacuum."""


class Unknown(Error):
    """A commit failed, and it is unknown whether it is durable; the cause is ``__cause__``.

    Open a filter again: at commit :attr:`commit` or higher it is durable, below that it is not. To a store, commit again
    with the same token, or look for the version in its history.
    """

    commit: int | None = None
    """The commit of a filter."""
    version: int | None = None
    """The version of a store."""


class AfterCommit(Error):
    """Every commit is durable, but a step after the last one failed; the cause is ``__cause__``. Open the filter again."""

    commit: int | None = None
    """The last commit."""


class Poisoned(Error):
    """An earlier write failed and its outcome is unknown. Open the filter again."""


class Io(Error, OSError):
    """The operating system refused."""


class JobError(Error):
    """A job cannot be run or continued, because of its file, an input, its output or its cursor in the filter.

    If a run had committed keys before, :attr:`committed` says how many; running the job again goes on from there.
    """

    committed: int
    """Keys of this run that are committed. Errors of the filter during a job have this attribute too."""


class JobInput(JobError):
    """An input of a job cannot be read, or has changed since it was read in part."""


class JobOutput(JobError):
    """The output of a job cannot be written, or somebody else has changed it."""


class JobOvertaken(JobError):
    """Another run of the same job has committed to the store since this run began."""



class JobSystem(JobError, OSError):
    """The operating system refused a file of a job."""


__all__ = [
    "AfterCommit",
    "Busy",
    "Conflict",
    "Damaged",
    "Error",
    "Exists",
    "Foreign",
    "Invalid",
    "Io",
    "JobError",
    "JobInput",
    "JobOutput",
    "JobOvertaken",
    "JobSystem",
    "Locked",
    "NoRoom",
    "NoSpace",
    "NotFound",
    "Poisoned",
    "Replaced",
    "Uncommitted",
    "Unknown",
    "Unsupported",
    "WrongClock",
    "WrongKind",
]
