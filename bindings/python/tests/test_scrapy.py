"""Invariants checked:

1. A crawl that is killed and resumed fetches each page once, except pages that were under way at a kill, one page that
   was being queued at each kill, and start requests, which Scrapy never filters.
2. Scrapy's own tests of dupefilters pass with this class, except tests that read a file of Scrapy's own format or ask for
   a list of all requests.
"""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import scrapy
from registry import sources
from scrapy.http import Request
from scrapy.utils.test import get_crawler

import gowk
from gowk.scrapy import GowkDupeFilter

HERE = Path(__file__).parent
PAGES = 2000
#: Scrapy's tests that cannot pass: one cuts Scrapy's own file, one lists all requests.
OTHERWISE = {"test_seenreq_truncated", "test_fingerprints_deprecation"}


def test_a_crawl_that_is_killed_twice_fetches_each_page_once(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, HERE / "site.py", str(PAGES), "fetched"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as site:
        try:
            assert site.stdout is not None
            underway = crawl(site.stdout.readline().strip())
        finally:
            site.kill()
    fetched = Counter(map(int, Path("fetched").read_text().split()))
    # Scrapy does not filter start requests, and requests no link before them.
    starts = fetched.pop(1)
    again = {page: times for page, times in fetched.items() if times > 1}
    print(f"{len(fetched)} pages in {fetched.total()} fetches, {len(again)} of {len(underway)} under way again")
    assert set(fetched) == set(range(2, PAGES + 1)), "a page was lost"
    # A request that was queued, and not written out before the kill, is queued again by the page that links to it.
    queued = set(again) - underway
    assert len(queued) <= 2 and all(page // 2 in underway for page in queued)
    assert max(fetched.values()) <= 3 and starts <= 6
    with gowk.Writer("job/requests.gowk", mode="r+") as seen:
        assert PAGES - 1 <= len(seen) <= PAGES
    assert not list(Path("job").glob("*-requests")) and not list(Path("job").glob("*.underway*"))


def crawl(port: str) -> set[int]:
    """Returns the pages that were under way at a kill."""
    underway = set()
    for limit in (PAGES // 3, 2 * PAGES // 3, None):
        with open("log", "a") as log:
            child = subprocess.Popen([sys.executable, HERE / "crawl.py", port], stderr=log)
        while limit is not None and child.poll() is None:
            if Path("fetched").exists() and Path("fetched").read_bytes().count(b"\n") >= limit:
                child.send_signal(signal.SIGKILL)
                break
            time.sleep(0.01)
        status = child.wait(300)
        assert status == (0 if limit is None else -signal.SIGKILL), Path("log").read_text()[-3000:]
        if limit is not None:
            with closing(sqlite3.connect("job/requests.underway")) as rows:
                requests = [pickle.loads(row) for (row,) in rows.execute("SELECT request FROM requests")]
            underway |= {int(request["url"].rsplit("/")[-1]) for request in requests}
    return underway


def seen(settings: dict[str, object], *urls: str) -> list[bool]:
    dupefilter = GowkDupeFilter.from_crawler(get_crawler(settings_dict=settings))
    dupefilter.open()
    try:
        return [dupefilter.request_seen(Request(url)) for url in urls]
    finally:
        dupefilter.close("finished")


def test_where_requests_are_remembered(folder: Path) -> None:
    first, second = "http://example.org/1", "http://example.org/2"
    assert seen({}, first, first) == [False, True]
    assert seen({}, first) == [False], "without a path, the filter lasts as long as the crawl"
    assert seen({"JOBDIR": "job"}, first) == [False]
    assert seen({"JOBDIR": "job"}, first, second) == [True, False]
    assert gowk.Reader("job/requests.gowk").info().slots_per_bucket == 2
    settings: dict[str, object] = {
        "JOBDIR": "job",
        "GOWK_PATH": "seen.gowk",
        "GOWK_CAPACITY": "5000",
        "GOWK_FALSE_POSITIVE_RATE": "0.001",
    }
    assert seen(settings, first) == [False]
    info = gowk.Reader("seen.gowk").info()
    assert (info.capacity, info.requested_false_positive_rate) == (5000, 0.001)


@pytest.mark.parametrize("week", [timedelta(days=7), "604800"])
def test_pages_are_crawled_again_after_a_week(folder: Path, week: object) -> None:
    first, second = "http://example.org/1", "http://example.org/2"
    settings: dict[str, object] = {"GOWK_PATH": "seen.gowk", "GOWK_FORGET_AFTER": week}
    assert seen(settings, first, first) == [False, True]
    info = gowk.Reader("seen.gowk").info()
    assert (info.kind, info.forget_after, info.slots_per_bucket) == ("forgetting", timedelta(days=7), 2)
    assert seen(settings, first, second) == [True, False]
    # The next crawl begins days after the one before.
    fingerprints = [fingerprint(url) for url in (first, second)]
    for days, known in ((6, True), (8, False)):
        os.unlink("seen.gowk")
        with gowk.Writer("seen.gowk", capacity=1000, slots_per_bucket=2, forget_after=timedelta(days=7)) as writer:
            before = datetime.now(UTC) - timedelta(days=days)
            assert len(writer.insert_many_at(fingerprints, [before] * 2).new) == 2
        assert seen(settings, first, second) == [known, known], days
        assert seen(settings, first, second) == [True, True], days


def fingerprint(url: str) -> str:
    return GowkDupeFilter.from_crawler(get_crawler()).request_fingerprint(Request(url))


def test_requests_survive_a_kill_between_commits(folder: Path) -> None:
    code = (
        "import os, signal\n"
        "from gowk.scrapy import GowkDupeFilter\n"
        "from scrapy import Request\n"
        "filter = GowkDupeFilter('seen.gowk', commit_every=100)\n"
        "for i in range(250): filter.request_seen(Request(f'http://example.org/{i}'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert len(gowk.Reader("seen.gowk")) == 200, "two commits"
    urls = [f"http://example.org/{i}" for i in range(250)]
    # The dupefilter cannot know whether the last request was queued before the process died.
    assert seen({"GOWK_PATH": "seen.gowk"}, *urls) == [True] * 249 + [False]


SCRAPYS_OWN = """
import scrapy.dupefilters, scrapy.settings.default_settings as settings, sys, pytest
from gowk.scrapy import GowkDupeFilter
settings.DUPEFILTER_CLASS = "gowk.scrapy.GowkDupeFilter"
scrapy.dupefilters.RFPDupeFilter = GowkDupeFilter
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-rA", "tests/test_dupefilters.py"]))
"""


@pytest.mark.registry
def test_scrapys_own_tests(folder: Path) -> None:
    tests = sources("scrapy", f"=={scrapy.__version__}") / "tests"
    # The tests must import the installed scrapy, not the sources beside them.
    root = folder / "own"
    root.mkdir()
    tests.rename(root / "tests")
    for other in (root / "tests").glob("conftest.py"):
        other.unlink()
    done = subprocess.run(
        [sys.executable, "-c", SCRAPYS_OWN], cwd=root, capture_output=True, text=True, check=False, env=os.environ
    )
    print(done.stdout[-2000:])
    words = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    outcomes = {word[1].split("::")[-1]: word[0] for word in words}
    failed = {name for name, outcome in outcomes.items() if outcome != "PASSED"}
    assert len(outcomes) >= 10, done.stdout + done.stderr
    assert failed == OTHERWISE & set(outcomes), done.stdout


def test_two_spiders_of_a_process_have_two_filters(folder: Path) -> None:
    def opened(name: str, path: str) -> GowkDupeFilter:
        spider = type("Spider", (scrapy.Spider,), {"name": name})
        return GowkDupeFilter.from_crawler(get_crawler(spider, {"GOWK_PATH": path}))

    one = opened("one", "seen.gowk")
    with pytest.raises(ValueError, match=r"seen.gowk: another spider of this process.*%\(name\)s"):
        opened("two", "seen.gowk")
    one.close("finished")
    filters = [opened(name, "%(name)s.gowk") for name in ("one", "two")]
    assert all(not filter.request_seen(Request("https://example.org/")) for filter in filters)
    for filter in filters:
        filter.close("finished")
    assert Path("one.gowk").exists() and Path("two.gowk").exists()


def test_a_link_in_the_place_of_the_log_is_refused_and_its_target_stays(folder: Path) -> None:
    Path("secret").write_text("a\nb\n")
    for plant in (os.symlink, os.link):
        plant("secret", "seen.gowk-requests")
        with pytest.raises(OSError, match="seen.gowk-requests"):
            GowkDupeFilter("seen.gowk")
        assert Path("secret").read_text() == "a\nb\n"
        os.unlink("seen.gowk-requests")
    seen = GowkDupeFilter("seen.gowk")
    seen.close("finished")
    assert len(gowk.Reader("seen.gowk")) == 0


def test_a_setting_that_is_guessed_wrong_is_refused_and_a_filter_that_is_not_kept_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="GOWK_FILTER: no such setting; there are .*GOWK_PATH"):
        GowkDupeFilter.from_crawler(get_crawler(scrapy.Spider, {"GOWK_FILTER": "seen.gowk"}))
    GowkDupeFilter.from_crawler(get_crawler(scrapy.Spider, {})).close("finished")
    assert "without GOWK_PATH and JOBDIR" in caplog.text
