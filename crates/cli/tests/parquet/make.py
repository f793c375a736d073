"""Makes the Parquet files of the tests, and beside each the keys that DuckDB finds in it.

    pip install duckdb pyarrow && python3 make.py

`crates/cli/tests/cli/parquet.rs` and `crates/ingest/src/parquet/tests.rs` read them. What `gowk dedup` prints of larger files is
compared with DuckDB by `compare.py`."""

import pathlib

import duckdb
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS = """
    select n::bigint as id,
           case when n % 7 = 3 then null else 'https://example.org/' || n % 20 end as url,
           case when n % 5 = 4 then null else {'name': case when n % 4 = 1 then null else 'u' || n % 9 end} end as user,
           (n * 92233720368547758)::ubigint as big,
           (-n)::smallint as small,
           ('00000000-0000-4000-8000-0000000000' || n)::uuid as uuid,
           case when n % 3 = 0 then null else n % 2 = 0 end as even,
           ('k' || n % 6)::blob as bytes,
           ('2026-01-01'::timestamp + to_days(n::int)) as at,
           [n, n + 1] as many,
           n / 8 as ratio,
    from range(10, 50) t(n)"""
KEYS = {"url": "url", "user.name": '"user".name', "id": "id", "big": "big", "small": "small", "uuid": "uuid",
        "even": "even", "bytes": "bytes"}


def text(value):
    return str(value).lower() if isinstance(value, bool) else value.decode() if isinstance(value, bytes) else str(value)


def keys(path, column):
    """The distinct values of a column in their order, as DuckDB reads them."""
    rows = duckdb.sql(f"select {KEYS[column]} from '{path}' where {KEYS[column]} is not null").fetchall()
    return list(dict.fromkeys(text(row[0]) for row in rows))


def make(folder, rows, group):
    duckdb.sql(f"create or replace temp table rows as {rows}")
    for codec in ["snappy", "zstd", "gzip", "brotli", "lz4_raw"]:
        path = folder / f"duckdb-{codec.removesuffix('_raw')}.parquet"
        duckdb.sql(f"copy rows to '{path}' (format parquet, codec '{codec}', row_group_size {group})")
    table = pq.read_table(folder / "duckdb-zstd.parquet")
    pq.write_table(table, folder / "arrow-v1.parquet", row_group_size=group, compression="none")
    delta = {name: "DELTA_BINARY_PACKED" for name in ["id", "small"]} | {"url": "DELTA_BYTE_ARRAY"}
    pq.write_table(table, folder / "arrow-v2.parquet", row_group_size=group, compression="zstd", data_page_version="2.0",
                   write_page_checksum=True, use_dictionary=["bytes"], column_encoding=delta)


if __name__ == "__main__":
    make(HERE, ROWS, 2048)
    # DuckDB's row groups have at least 2048 rows.
    small = pq.read_table(HERE / "duckdb-snappy.parquet")
    pq.write_table(small, HERE / "arrow-groups.parquet", row_group_size=15, compression="snappy")
    for column in KEYS:
        found = {tuple(keys(path, column)) for path in HERE.glob("*.parquet")}
        assert len(found) == 1
        (HERE / f"{column}.txt").write_text("".join(f"{key}\n" for key in found.pop()))
