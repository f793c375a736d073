"""DuckDB: fill a filter from a query, and use it in SQL as a function over whole vectors.

python examples/duckdb_filter.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import func

import gowk


def main(folder: Path) -> None:
    connection = duckdb.connect()
    connection.execute("create table leaked as select 'password' || range as word from range(100000)")
    with gowk.Writer(folder / "leaked.gowk", capacity=100_000, false_positive_rate=1e-6) as leaked:
        # A query of one column is a stream of keys, read in constant memory.
        leaked.update(connection.sql("select word from leaked"))

    reader = gowk.Reader(folder / "leaked.gowk")

    # DuckDB calls it with whole vectors.
    is_leaked = lambda words: pa.array(reader.contains_many(words))  # noqa: E731
    connection.create_function("is_leaked", is_leaked, ["VARCHAR"], "BOOLEAN", type=func.ARROW)
    query = "select word, is_leaked(word) from (values ('password7'), ('correct horse')) as words(word) order by 1"
    rows = connection.sql(query).fetchall()
    print(rows)
    assert rows == [("correct horse", False), ("password7", True)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
