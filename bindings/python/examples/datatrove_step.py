"""A filter step of a language-model pipeline, in the manner of datatrove: documents that were seen in any earlier run, or
in this one, are dropped. Each document is known by the hash of its normalised text.

python examples/datatrove_step.py FOLDER
"""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import Any

import gowk


@dataclass
class Document:
    text: str
    id: str
    metadata: dict[str, Any] = field(default_factory=dict)


def fingerprint(text: str) -> bytes:
    """Sixteen bytes that differ if more than case, spaces or the form of the characters does."""
    normal = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.blake2b(normal.encode("utf-8", "replace"), digest_size=16).digest()


class ExactDedup:
    """A step of a pipeline: ``run`` takes documents and yields the new ones."""

    def __init__(self, filter_file: Path, capacity: int, batch: int = 10_000) -> None:
        self.filter_file, self.capacity, self.batch = filter_file, capacity, batch
        self.dropped = 0

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        # A wrong "seen" drops a document, so the rate is low: 2 slots a bucket, 1.5e-9 at five bytes a document.
        # One process writes; a pipeline of several ranks gives each a filter of its own part of the fingerprints.
        with gowk.Writer(self.filter_file, capacity=self.capacity, slots_per_bucket=2) as seen:
            rest = iter(data)
            while documents := list(islice(rest, self.batch)):
                new = seen.insert_many([fingerprint(document.text) for document in documents])
                self.dropped += len(documents) - int(new.sum())
                yield from compress(documents, new)


def main(folder: Path) -> None:
    step = ExactDedup(folder / "documents.gowk", capacity=1_000_000, batch=2)
    documents = [Document("A bird.", "1"), Document("a  BIRD.", "2"), Document("Another bird.", "3")]
    kept = [document.id for document in step.run(documents)]
    again = [document.id for document in step.run(documents)]
    print(kept, again, step.dropped)
    assert kept == ["1", "3"] and again == [] and step.dropped == 4


if __name__ == "__main__":
    main(Path(sys.argv[1]))
