"""Compares what `gowk dedup` prints of URLs in Parquet, CSV and JSON Lines with what DuckDB and jq select.

    pip install duckdb pyarrow && python3 compare.py target/release/gowk [URLS.txt.gz]

gowk must be built with the feature `parquet`, and jq be there. The URLs are those of `examples` unless others are given."""

import pathlib
import subprocess
import sys
import tempfile

import duckdb

from make import HERE, KEYS, keys, make

# Of row groups, a null struct, a null field, duplicates, and every type that is a key.
ROWS = """
    select id, url,
           case when id % 7 = 3 then null else {{'name': case when id % 5 = 1 then null else url end}} end as user,
           (id * 92233720368547)::ubigint as big, (id % 30000)::smallint as small,
           ('00000000-0000-4000-8000-' || format('{{:012}}', id))::uuid as uuid,
           id % 3 = 0 as even, url::blob as bytes
    from (select row_number() over () as id, column0 as url
          from read_csv('{urls}', header = false, delim = chr(1), quote = '', columns = {{'column0': 'varchar'}}))"""
# Two of 200,000 distinct keys are expected to look like another one at a rate of 1e-5: here none is.
RATE = "1e-8"


def dedup(gowk, folder, *args):
    seen = pathlib.Path(folder, "seen.gowk")
    command = [gowk, "dedup", seen, "--capacity", "400k", "--false-positive-rate", RATE, "--seed", "1", *args]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    for path in pathlib.Path(folder).glob("seen.gowk*"):
        path.unlink()
    return printed.decode().splitlines()


def equal(what, found, expected):
    assert len(expected) > 1 and found == expected, f"{what}: {len(found)} keys, and {len(expected)} expected"
    print(f"{what}: {len(found)} distinct keys, as expected")


def main(gowk, urls=HERE.parents[3] / "examples" / "urls.txt.gz"):
    with tempfile.TemporaryDirectory() as folder:
        make(pathlib.Path(folder), ROWS.format(urls=urls), 5000)
        for path in sorted(pathlib.Path(folder).glob("*.parquet")):
            if "brotli" not in path.name:
                for column in KEYS:
                    found = dedup(gowk, folder, "--input", path, "--column", column)
                    equal(f"{path.name}, {column}", found, keys(path, column))

        csv, json = f"{folder}/x.csv", f"{folder}/x.jsonl"
        # Rows of which none, some or all of the key was there before.
        rows = "select url, id % 3 as id, row_number() over () as n from rows"
        duckdb.sql(f"copy ({rows}) to '{csv}' (format csv)")
        first = f"select n from ({rows}) qualify row_number() over (partition by url, id order by n) = 1 order by n"
        expected = [str(row[0]) for row in duckdb.sql(first).fetchall()]
        found = dedup(gowk, folder, "--input", csv, "--csv", "url,id")
        equal("--csv url,id", [row.rsplit(",", 1)[1] for row in found[1:]], expected)

        duckdb.sql(f"copy (select \"user\", id from rows) to '{json}' (format json)")
        select = ["jq", "-r", "select(.user.name != null) | .user.name", json]
        names = subprocess.run(select, check=True, capture_output=True, text=True).stdout.splitlines()
        found = "\n".join(dedup(gowk, folder, "--input", json, "--json-field", "user.name"))
        found = subprocess.run(["jq", "-r", ".user.name"], check=True, capture_output=True, text=True, input=found)
        equal("--json-field user.name", found.stdout.splitlines(), list(dict.fromkeys(names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
