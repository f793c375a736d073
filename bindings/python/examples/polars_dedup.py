"""polars: keep the rows of each batch whose URL no earlier batch had. The filter outlives the process.

python examples/polars_dedup.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

import gowk


def unseen(frames: Iterable[pl.DataFrame], column: str, filter_file: Path) -> Iterator[pl.DataFrame]:
    """The rows of each frame that are new; of rows with equal keys, the first. A null has no key, and is dropped."""
    with gowk.Writer(filter_file, capacity=1_000_000, false_positive_rate=1e-6) as seen:
        for frame in frames:
            # The column's own memory is read; nothing is copied.
            new = frame.filter(pl.Series(seen.insert_many(frame[column])))
            yield new
            # The caller asks for the next rows once it has saved these.
            seen.commit()


def main(folder: Path) -> None:
    monday = pl.DataFrame({"url": ["/a", "/b", "/a", None], "status": [200, 404, 200, 500]})
    tuesday = pl.DataFrame({"url": ["/b", "/c"], "status": [200, 200]})
    first, second = unseen([monday, tuesday], "url", folder / "seen.gowk")
    print(first, second)
    assert first["url"].to_list() == ["/a", "/b"] and second["url"].to_list() == ["/c"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
