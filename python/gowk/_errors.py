"""What gowk refuses, cannot do, or finds wrong. Each message names the file, the place and the remedy."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Whatever gowk refuses, cannot do, or finds wrong with a file.

    There is one subclass for each kind of error, and more for jobs. Unless it says otherwise, nothing was changed and the
    call may be repeated. What the operating system refused is an :class:`OSError` too, with ``errno`` and
    ``filename``.
    """

    path: str | None = None
    """The file or folder; None where there is none."""

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


class NotFound(Error, FileNotFoundError):
    """There is no such filter, store, folder or version."""


class Exists(Error, FileExistsError):
    """Something of this name is there already."""


class Foreign(Error):
    """What is there is no filter, or no store."""


class Unsupported(Error):
    """The file needs another version of gowk."""


class Damaged(Error):
    """What was read is not what was written. Verify, then restore a copy or repair."""

    region: int | None = None
    """The region of the filter that is damaged, if one page is."""
    page: int | None = None
    """The page, counted in pages of 4096 bytes."""


class Locked(Error):
    """Another process, or another :class:`~gowk.Writer` of this one, has the filter."""


class Busy(Error):
    """It kept changing while it was read. Try again."""


class NoRoom(Error):
    """The filter has no room for a key, and must not grow."""


class NoSpace(Error, OSError):
    """The file system has too little room."""


class WrongKind(Error):
    """The filter or store is a set where a counting one is needed, or the other way around."""


class Invalid(Error, ValueError):
    """An argument, an option or a combination of filters that cannot be."""


class Replaced(Error):
    """Another file has taken the filter's name. Open it again."""


class Uncommitted(Error):
    """A writer was closed with changes that were never committed. They are lost, and the writer is closed."""


class Conflict(Error):
    """Another commit to the store came first, or a vacuum has given up updates as old as this one. Nothing was committed:
    make the update again on the newest version.
    """

    shard: int | None = None
    """The shard that both commits changed; None after a vacuum."""
    base: int | None = None
    """The version that the update is based on."""
    version: int | None = None
    """The version that won; None after a vacuum."""


class Unknown(Error):
    """A commit failed, and nobody knows whether it is durable; the cause is ``__cause__``.

    Open a filter again: at commit :attr:`commit` or higher it is durable, below that it is not. To a store, commit again
    with the same token, or look for the version in its history.
    """

    commit: int | None = None
    """The commit of a filter."""
    version: int | None = None
    """The version of a store."""


class AfterCommit(Error):
    """Every commit is durable, but something after the last one failed; the cause is ``__cause__``. Open it again."""

    commit: int | None = None
    """The last commit."""


class Poisoned(Error):
    """An earlier write failed and its outcome is unknown. Open the filter again."""


class Io(Error, OSError):
    """The operating system refused."""


class JobError(Error):
    """A job cannot be run, or not any further: its file, an input, its output or what the filter remembers of it.

    If a run had committed keys before, :attr:`committed` says how many; running the job again goes on from there.
    """

    committed: int
    """Keys of this run that are committed. Errors of the filter have it too, if a job met them."""


class JobInput(JobError):
    """An input of a job cannot be read, or is not what was read before."""


class JobOutput(JobError):
    """The output of a job cannot be written, or is not what the job wrote."""


class JobOvertaken(JobError):
    """Another run of the same job has committed to the store meanwhile."""



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
    "WrongKind",
]
