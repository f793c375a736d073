"""A Scrapy dupefilter whose memory is a file: two bytes a request instead of hundreds, and kept over kills.

In the project's settings::

    DUPEFILTER_CLASS = "gowk.scrapy.GowkDupeFilter"
    GOWK_PATH = "%(name)s.gowk"              # %(name)s is the spider; unless given, requests.gowk in JOBDIR
    GOWK_CAPACITY = 10_000_000               # requests before the file doubles; a million unless given
    GOWK_FALSE_POSITIVE_RATE = 1e-9          # unless given, 2 slots a bucket: 7.5e-10, at five bytes a request
    GOWK_COMMIT_EVERY = 1000                 # requests; they are written out at once, and synced by commits
    GOWK_FORGET_AFTER = timedelta(days=7)    # or seconds: pages are crawled again; unless given, never

A wrong "seen" loses a page, which is why the rate is so low. Each spider has a filter of its own: two spiders of a
process on one path are an error. Without ``GOWK_PATH`` and ``JOBDIR`` the filter lasts as long as the crawl, with a
warning. With ``GOWK_PATH`` alone, the next crawl visits the start requests and pages that no crawl has visited; with
``GOWK_FORGET_AFTER``, also pages that were first requested longer ago than that. That time is fixed when the file is
created; a request is forgotten at most a 14th of it later. With ``GOWK_FORGET_AFTER`` the lowest rate is 1.5e-8.

**Kills.** Scrapy writes its own disk queues and the list of them when a crawl ends, and requests that are being
downloaded are in no queue. For a crawl with JOBDIR that goes on after a kill, keep the requests in SQLite, and use the
scheduler of this module, which records the rest::

    SCHEDULER = "gowk.scrapy.Scheduler"
    SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleLifoSQLiteQueue"
    SCHEDULER_START_DISK_QUEUE = None        # start requests are queued with the others

Then the requests that were being downloaded or scraped at the kill are downloaded again, and none is lost. A request that
was being queued at the kill may be downloaded twice.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import pickle
import sqlite3
import stat
import tempfile
from collections.abc import Container
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.core.scheduler import Scheduler as _Scheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import request_from_dict

from . import Writer

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

__all__ = ["GowkDupeFilter", "Scheduler"]

_logger = logging.getLogger(__name__)
_SETTINGS = {"GOWK_PATH", "GOWK_CAPACITY", "GOWK_FALSE_POSITIVE_RATE", "GOWK_COMMIT_EVERY", "GOWK_FORGET_AFTER"}
#: The filters that spiders of this process have open.
_open: set[Path] = set()


class GowkDupeFilter(RFPDupeFilter):
    """Scrapy's request fingerprints, in a gowk filter.

    A request is written to ``FILE-requests`` once it is queued, so it survives a kill of the process. (With another
    scheduler than this module's, it is written before the next request is checked.) Commits, every ``GOWK_COMMIT_EVERY``
    requests and at the end, make requests survive a loss of power too.
    """

    def __init__(
        self,
        path: str | None = None,
        debug: bool = False,
        *,
        fingerprinter: Any = None,
        capacity: int = 1_000_000,
        false_positive_rate: float | None = None,
        commit_every: int = 1000,
        forget_after: timedelta | float | None = None,
    ) -> None:
        super().__init__(None, debug, fingerprinter=fingerprinter)
        if not path:
            _logger.warning("gowk: without GOWK_PATH and JOBDIR, the requests seen are forgotten when the crawl ends")
        self._folder = None if path else tempfile.TemporaryDirectory(prefix="gowk-")
        self._path = Path(path or Path(self._folder.name if self._folder else "", "requests.gowk"))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Waiting for another spider of this process would stop its reactor, and so that spider.
        if self._path.resolve() in _open:
            raise ValueError(
                f"{self._path}: another spider of this process uses this filter; give each its own: GOWK_PATH = '%(name)s.gowk'"
            )
        self._commit_every = commit_every
        width: dict[str, Any] = {"slots_per_bucket": 2}
        if false_positive_rate is not None:
            width = {"false_positive_rate": false_positive_rate}
        # A crawl begins long after the one before. If the clock is wrong, pages are crawled again, and none is lost.
        options: dict[str, Any] = {"forget_after": forget_after, "clock_is_right": True, **width}
        self._writer = Writer(self._path, capacity=capacity, wait=10, **options)
        try:
            self._log = _open_log(f"{self._path}-requests")
        except OSError:
            self._writer.rollback()
            self._writer.close()
            raise
        _open.add(self._path.resolve())
        self._unwritten = b""
        self._uncommitted = 0
        with open(os.dup(self._log), "rb") as log:
            # The last line may have been cut off. A filter that forgets keeps these requests from now on.
            lines = log.read().split(b"\n")[:-1]
        if lines:
            self._writer.update(lines)
        self._commit()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        unknown = [name for name in settings if name.startswith("GOWK_") and name not in _SETTINGS]
        if unknown:
            raise ValueError(f"{unknown[0]}: no such setting; there are {', '.join(sorted(_SETTINGS))}")
        path = settings.get("GOWK_PATH")
        if path:
            path = str(path).replace("%(name)s", crawler.spidercls.name)
        if not path and settings.get("JOBDIR"):
            path = str(Path(settings["JOBDIR"], "requests.gowk"))
        rate = settings.get("GOWK_FALSE_POSITIVE_RATE")
        after = settings.get("GOWK_FORGET_AFTER")
        return cls(
            path,
            settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
            capacity=settings.getint("GOWK_CAPACITY", 1_000_000),
            false_positive_rate=None if rate is None else float(rate),
            commit_every=settings.getint("GOWK_COMMIT_EVERY", 1000),
            forget_after=after if after is None or isinstance(after, timedelta) else float(after),
        )

    def request_seen(self, request: Request) -> bool:
        """Whether an equal request was seen before. If not, remembers this one."""
        # Scrapy queues a request after this call. So the request that is written out here was queued before.
        self.written()
        if self._uncommitted >= self._commit_every:
            self._commit()
        fingerprint = self.request_fingerprint(request)
        if not self._writer.insert(fingerprint):
            return True
        self._unwritten = fingerprint.encode() + b"\n"
        self._uncommitted += 1
        return False

    def written(self) -> None:
        """Writes out the last request, which has been queued."""
        if self._unwritten:
            os.write(self._log, self._unwritten)
            self._unwritten = b""

    def _commit(self) -> None:
        self._writer.commit()
        os.ftruncate(self._log, 0)
        self._uncommitted = 0

    def close(self, reason: str) -> None:
        """Commits, and closes the filter."""
        if self._writer.closed:
            return
        self._unwritten = b""
        self._commit()
        self._writer.close()
        _open.discard(self._path.resolve())
        os.close(self._log)
        os.unlink(f"{self._path}-requests")
        if self._folder:
            self._folder.cleanup()


def _open_log(path: str) -> int:
    """The file of requests that were not committed, which is read and then emptied. Others may have made its name a link."""
    try:
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a symbolic link, and may be another's file; remove it", path) from None
        raise
    found = os.fstat(log)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(log)
        raise FileExistsError(errno.EEXIST, "is not a regular file with one name, and may be another's; remove it", path)
    return log


class Scheduler(_Scheduler):
    """Scrapy's scheduler, which also keeps on disk what a crawl needs to go on after a kill: the list of queues, and the
    requests that have left their queue and are not finished. The next crawl begins with these requests.
    """

    _known: Any = None
    _underway: _Underway | None = None

    def open(self, spider: Spider) -> Deferred[None] | None:
        opened = super().open(spider)
        if self.dqdir is not None:
            self._underway = _Underway(Path(self.dqdir).with_name("requests.underway"))
            for number, request in self._underway.left(spider):
                self._dqpush(request)
                self._underway.remove(number)
            self._remember()
        return opened

    def enqueue_request(self, request: Request) -> bool:
        enqueued = super().enqueue_request(request)
        if isinstance(self.df, GowkDupeFilter):
            self.df.written()
        self._remember()
        return enqueued

    def next_request(self) -> Request | None:
        if self._underway is None:
            return super().next_request()
        # The engine's slot no longer has requests that the engine is done with.
        slot = getattr(self.crawler and self.crawler.engine, "_slot", None)
        self._underway.keep(getattr(slot, "inprogress", ()))
        # The request is recorded before it leaves the queue: after a kill in between it is downloaded twice, not lost.
        # With a separate queue of start requests, `peek` may return another request than `next_request` does.
        number = None
        if not self.mqs and self.dqs is not None:
            try:
                first = self.dqs.peek()
            except NotImplementedError:
                first = None
            if first is not None:
                number = self._underway.add(first, self.spider)
        request = super().next_request()
        if request is not None and number is not None:
            self._underway.is_now(number, request, self.spider)
        return request

    def close(self, reason: str) -> Deferred[None] | None:
        if self._underway is not None:
            self._underway.close()
        return super().close(reason)

    def _remember(self) -> None:
        if self.dqs is None or self.dqdir is None:
            return
        queues = _queues(self.dqs)
        if queues != self._known:
            self._known = queues
            whole = Path(self.dqdir, "active.json")
            part = whole.with_suffix(".part")
            part.write_text(json.dumps(queues), encoding="utf-8")
            part.replace(whole)


class _Underway:
    """A file of the requests that are being downloaded or scraped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = sqlite3.connect(path, isolation_level=None)
        # With these settings commits do not wait for the disk. They survive a kill, but not a loss of power.
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA synchronous = NORMAL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY, request BLOB)")
        self._numbers: dict[Request, int] = {}
        self._last = b""

    def left(self, spider: Spider) -> list[tuple[int, Request]]:
        """The requests that a killed process has left."""
        rows = self._rows.execute("SELECT id, request FROM requests ORDER BY id").fetchall()
        return [(number, request_from_dict(pickle.loads(row), spider=spider)) for number, row in rows]

    def add(self, request: Request, spider: Spider) -> int | None:
        self._last = pickle.dumps(request.to_dict(spider=spider), protocol=4)
        return self._rows.execute("INSERT INTO requests (request) VALUES (?)", (self._last,)).lastrowid

    def is_now(self, number: int, request: Request, spider: Spider) -> None:
        """Says that the request of that number, the last one added, is this object."""
        self._numbers[request] = number
        row = pickle.dumps(request.to_dict(spider=spider), protocol=4)
        if row != self._last:
            self._rows.execute("UPDATE requests SET request = ? WHERE id = ?", (row, number))

    def keep(self, requests: Container[Request]) -> None:
        """Removes all requests except these."""
        for request in [request for request in self._numbers if request not in requests]:
            self.remove(self._numbers.pop(request))

    def remove(self, number: int) -> None:
        self._rows.execute("DELETE FROM requests WHERE id = ?", (number,))

    def close(self) -> None:
        """Removes the file: the crawl has ended, and no request is under way."""
        self._rows.close()
        self._path.unlink()


def _queues(queue: Any) -> Any:
    """What a priority queue's ``close`` returns, without closing it."""
    if hasattr(queue, "pqueues"):
        return {slot: _queues(of_slot) for slot, of_slot in sorted(queue.pqueues.items())}
    return sorted({*queue.queues, *getattr(queue, "_start_queues", ())})
