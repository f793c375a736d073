"""A crawl of the site of ``site.py``: python crawl.py PORT."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess

CONCURRENT = 8


class Pages(scrapy.Spider):
    name = "pages"

    def __init__(self, port: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.start_urls = [f"http://127.0.0.1:{port}/1"]

    def parse(self, response: Any) -> Iterator[Any]:
        yield from response.follow_all(css="a")


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "JOBDIR": "job",
            "DUPEFILTER_CLASS": "gowk.scrapy.GowkDupeFilter",
            "GOWK_CAPACITY": 10_000,
            "GOWK_COMMIT_EVERY": 100,
            "SCHEDULER": "gowk.scrapy.Scheduler",
            "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
            "SCHEDULER_START_DISK_QUEUE": None,
            "CONCURRENT_REQUESTS": CONCURRENT,
            "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENT,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "INFO",
        }
    )
    process.crawl(Pages, port=sys.argv[1])
    process.start()
