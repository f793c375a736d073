"""Rows of training text that no run before had, each written exactly once, from numbered batches: of Ray Data, of pyarrow,
or of a list. The store remembers the last batch, so a job that dies anywhere is started again as it was.

python examples/batches_exactly_once.py FOLDER
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import gowk


def fingerprinted(batch: pa.Table) -> pa.Table:
    """The batch with a column of sixteen bytes that differ if more than case or spaces of the text does."""

    def fingerprint(text: str | None) -> bytes:
        normal = " ".join(unicodedata.normalize("NFKC", text or "").casefold().split())
        return hashlib.blake2b(normal.encode("utf-8", "replace"), digest_size=16).digest()

    hashes = [fingerprint(text) for text in batch["text"].to_pylist()]
    return batch.append_column("hash", pa.array(hashes, pa.binary()))


def write_unseen(batches: Iterable[pa.Table], store: gowk.Store, application: str, out: Path) -> None:
    """Writes the unseen rows of each batch to a file of its own. Every run must bring the same batches in the same order."""
    for number, batch in enumerate(batches, 1):
        file = out / f"{number:06}.parquet"
        if file.exists():
            continue
        # If the last run died behind this line, the token gives its answers again.
        new = store.insert_many(batch["hash"], token=(application, number))
        part = out / f".{number:06}"
        pq.write_table(batch.filter(pa.array(new)).drop_columns(["hash"]), part)
        part.replace(file)


def batches_of(files: list[str], rows: int) -> Iterator[pa.Table]:
    """Batches of this many rows, the same in each run, read and hashed by Ray's workers if Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        for batch in pa.dataset.dataset(files).to_batches(batch_size=rows):
            yield fingerprinted(pa.Table.from_batches([batch]))
        return
    data: Any = importlib.import_module("ray.data")
    # Without this, batches come as workers finish them.
    data.DataContext.get_current().execution_options.preserve_order = True
    rows_of_ray = data.read_parquet(files).map_batches(fingerprinted, batch_format="pyarrow")
    yield from rows_of_ray.iter_batches(batch_size=rows, batch_format="pyarrow")


def main(folder: Path) -> None:
    corpus, out = folder / "corpus", folder / "unseen"
    corpus.mkdir()
    out.mkdir()
    texts = [f"Document {number % 70}" if number % 3 else f"DOCUMENT  {number % 70}" for number in range(200)]
    for part in range(2):
        pq.write_table(pa.table({"text": texts[100 * part : 100 * (part + 1)]}), corpus / f"{part}.parquet")
    files = [str(path) for path in sorted(corpus.iterdir())]
    # A wrong "seen" drops a document, so the rate is low: 2 slots a bucket, 1.5e-9 at five bytes a document.
    store = gowk.Store.create(folder / "seen.store", shards=4, capacity=1_000_000, slots_per_bucket=2)

    def dies(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        yield next(batches)
        batch = next(batches)
        # As if the process was killed between the commit of the second batch and its file.
        store.insert_many(batch["hash"], token=("corpus", 2))
        raise KeyboardInterrupt

    try:
        write_unseen(dies(batches_of(files, 50)), store, "corpus", out)
    except KeyboardInterrupt:
        print("stopped after", len(list(out.glob("*.parquet"))), "of 4 batches")
    write_unseen(batches_of(files, 50), gowk.Store(folder / "seen.store"), "corpus", out)
    kept = [str(text) for file in sorted(out.glob("*.parquet")) for text in pq.read_table(file)["text"].to_pylist()]
    print(len(kept), "of", len(texts), "documents were new, in", len(list(out.glob("*.parquet"))), "files")
    assert sorted(" ".join(text.casefold().split()) for text in kept) == sorted(f"document {n}" for n in range(70))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
