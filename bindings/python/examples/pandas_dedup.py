"""pandas: mark what was seen before, in chunks of a CSV file that is larger than memory.

python examples/pandas_dedup.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import gowk


def main(folder: Path) -> None:
    source = folder / "visits.csv"
    source.write_text("url,user\n" + "".join(f"/page/{number % 1500},{number}\n" for number in range(10_000)))
    new = 0
    with gowk.Writer(folder / "seen.gowk", capacity=10_000, slots_per_bucket=2) as seen:
        for chunk in pd.read_csv(source, chunksize=1000):
            chunk["new"] = seen.insert_many(chunk["url"])
            new += int(chunk["new"].sum())
    print(f"{new} of 10000 visits were to new pages")
    assert new == 1500


if __name__ == "__main__":
    main(Path(sys.argv[1]))
