"""Files that tasks of a cluster keep on a local disk: copies of shards' files, and files that they are writing.

Invariants:

1. A copy has the file's own name, which no other file ever has. It gets this name only when it is whole: all its pages
   match their checksums, and it is the file that the version names.
2. If a copy is damaged later, the store reads its own file instead, and the copy is removed here.
3. The folder belongs to the user of the process, and others cannot write to it: its name can be guessed, and what others
   put there would be read as shards, or removed.
4. No process holds the files that a killed task leaves; a later task removes them.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from ._errors import Error
from ._gowk import Reader
from ._info import ShardFile

log = logging.getLogger("gowk.spark")
if log.level == logging.NOTSET:
    # Spark collects the logs of its Python workers, but leaves their root logger at warnings: see python_worker_logs().
    log.setLevel(logging.INFO)


@dataclass(frozen=True)
class Disk:
    """A folder with copies of shards' files, at most ``limit`` bytes of them, and with files that tasks are writing."""

    root: Path
    limit: int

    @classmethod
    def own(cls, root: Path, limit: int) -> Disk:
        """The folder, made unless it is there. Raises ``PermissionError`` if it is another user's, or a link."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = root.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
            why = "is a link or another user's, or everybody may write to it; give the Store a folder of your own with local="
            raise PermissionError(errno.EACCES, why, str(root))
        return cls(root, limit)

    @property
    def copies(self) -> Path:
        return self.root / "copies"

    def fetch(self, file: ShardFile) -> int:
        """Copies the file, unless it is there already or there is no room; returns the number of bytes copied.

        Without a copy, the file is read in the store.
        """
        copy = self.copies / file.name
        if _is_whole(copy, file):
            os.utime(copy)
            return 0
        if file.bytes > self.limit:
            log.warning("shard %d: %s has %d bytes and stays where it is: local_bytes=%d", file.shard, file.path, file.bytes, self.limit)
            return 0
        (self.root / "fetching").mkdir(parents=True, exist_ok=True)
        self.copies.mkdir(exist_ok=True)
        partial = self.root / "fetching" / file.name
        # One process at a time holds this lock; the kernel frees it if that process dies.
        with partial.open("ab") as target:
            fcntl.flock(target, fcntl.LOCK_EX)
            try:
                if _is_whole(copy, file):
                    partial.unlink(missing_ok=True)
                    return 0
                if not _is_at(partial, target):
                    return 0
                self._make_room(file.bytes)
                target.truncate(0)
                with Path(file.path).open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                fetched = _as_named(partial, file)
                if fetched is None or not fetched.verify().is_clean:
                    # If the store's own file is damaged too, the lookups say so.
                    partial.unlink(missing_ok=True)
                    log.warning("shard %d: the copy of %s is damaged, or of another file", file.shard, file.path)
                    return 0
                os.rename(partial, copy)
            except FileNotFoundError:
                # The store itself reports why its file is gone.
                partial.unlink(missing_ok=True)
                return 0
            except OSError as error:
                partial.unlink(missing_ok=True)
                log.warning("shard %d: no copy of %s: %s", file.shard, file.path, error)
                return 0
        log.info("shard %d: fetched %d bytes of %s", file.shard, file.bytes, file.path)
        return file.bytes

    def drop(self, copy: Path) -> None:
        """Removes a copy that failed a check."""
        log.warning("dropped %s: it is damaged, or another file", copy)
        copy.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        """Removes partial copies of killed tasks, and then the least recently used copies. A process that reads a removed
        copy goes on reading it.
        """
        for partial in (self.root / "fetching").iterdir():
            _remove_if_dead(partial)
        copies = []
        for copy in self.copies.iterdir():
            try:
                copies.append((copy.stat().st_mtime, copy.stat().st_size, copy))
            except FileNotFoundError:
                continue
        used = sum(length for _, length, _ in copies)
        for _, length, copy in sorted(copies):
            if used + needed <= self.limit:
                break
            copy.unlink(missing_ok=True)
            used -= length

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder of this task's own, which is removed at the end, or by a later task if this one is killed."""
        parent = self.root / "scratch"
        parent.mkdir(parents=True, exist_ok=True)
        for lock in parent.glob("*.lock"):
            _remove_if_dead(lock)
        with ExitStack() as stack:
            while True:
                folder = parent / uuid4().hex
                lock = folder.with_suffix(".lock")
                held = lock.open("ab")
                # At this moment, another task may take the file for the lock of a dead task and remove it.
                if _locks(held) and _is_at(lock, held):
                    break
                held.close()
            stack.callback(held.close)
            stack.callback(lock.unlink, missing_ok=True)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.mkdir()
            yield folder


def _is_whole(copy: Path, file: ShardFile) -> bool:
    """Whether there is a copy, judged by its length and its superblock. Lookups compare the pages."""
    return _as_named(copy, file) is not None


def _as_named(path: Path, file: ShardFile) -> Reader | None:
    """The filter at the path, if it is the filter that the version names."""
    try:
        if path.stat().st_size != file.bytes:
            return None
        reader = Reader(path, sealed=True)
        found = reader.info()
    except (FileNotFoundError, Error):
        return None
    same = (found.uuid, found.commit, found.entries) == (file.uuid, file.commit, file.entries)
    return reader if same else None


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _remove_if_dead(lock: Path) -> None:
    """Removes a lock file that no process holds, and the folder that it protects."""
    try:
        with lock.open("rb") as held:
            if _locks(held) and _is_at(lock, held):
                if lock.suffix == ".lock":
                    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
