"""Invariants checked:

1. A ``str`` and its UTF-8 are one key, in whatever object the bytes are.
2. An object that is not a key raises a TypeError that names it, in every method, and nothing is changed.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gowk

SAME: list[Any] = [
    "clé \U0001f426",
    "clé \U0001f426".encode(),
    bytearray("clé \U0001f426".encode()),
    memoryview("clé \U0001f426".encode()),
    memoryview(b"x".join([bytes([b]) for b in "clé \U0001f426".encode()]))[::2],
    array.array("B", "clé \U0001f426".encode()),
    array.array("b", [b - 256 if b > 127 else b for b in "clé \U0001f426".encode()]),
    np.frombuffer("clé \U0001f426".encode(), np.uint8),
    np.str_("clé \U0001f426"),
    np.bytes_("clé \U0001f426".encode()),
    type("Text", (str,), {})("clé \U0001f426"),
    type("Bytes", (bytes,), {})("clé \U0001f426".encode()),
]

NO_KEYS: list[tuple[Any, str]] = [
    (None, "NoneType"),
    (3, "int"),
    (3.5, "float"),
    (("a",), "tuple"),
    (np.int64(7), "numpy.int64"),
    (np.uint8(7), "numpy.uint8"),
    (array.array("i", [1]), "array.array"),
    (np.zeros((2, 2), np.uint8), "numpy.ndarray"),
    ("a\ud800", "lone surrogate"),
]


@pytest.mark.parametrize("stored", range(len(SAME)))
def test_a_text_and_its_utf8_are_one_key(stored: int) -> None:
    with gowk.Writer("f", capacity=100) as writer:
        assert writer.insert(SAME[stored])
        assert not any(writer.insert(key) for key in SAME)
        assert all(key in writer for key in SAME)
    reader = gowk.Reader("f")
    assert all(key in reader for key in SAME)
    assert reader.contains_many(SAME).all()
    assert all(reader.count(key) == 1 for key in SAME)
    assert "cle" not in reader


def test_an_empty_key_and_a_long_one_are_keys() -> None:
    long = "ü" * 1_000_000
    with gowk.Writer("f", capacity=100) as writer:
        writer.update(["", long])
    reader = gowk.Reader("f")
    assert b"" in reader and long.encode() in reader and long[:-1] not in reader


@pytest.mark.parametrize(("key", "kind"), NO_KEYS, ids=[kind for _, kind in NO_KEYS])
def test_what_is_no_key_is_a_type_error(key: Any, kind: str) -> None:
    writer = gowk.Writer("f", capacity=100, counting=True)
    writer.commit()
    reader = gowk.Reader("f")
    for call in (
        writer.add,
        writer.insert,
        writer.remove,
        writer.count,
        writer.__contains__,
        reader.count,
        reader.__contains__,
    ):
        with pytest.raises(TypeError, match=kind) as caught:
            call(key)
        assert "key is" in str(caught.value)
    for many in (reader.contains_many, reader.count_many, writer.contains_many):
        with pytest.raises(TypeError, match=rf"keys\[2\] is .*{kind}"):
            many(["a", "b", key])
    assert len(writer) == 0


def test_one_key_is_not_taken_apart() -> None:
    gowk.Writer("f", capacity=100).commit()
    with gowk.Writer("f") as writer:
        with Path("f").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as map_:
            keys: list[Any] = ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), np.str_("abc"), np.bytes_(b"abc"), map_]
            keys += [type("Text", (str,), {})("abc"), array.array("B", b"abc"), (ctypes.c_char * 3)(*b"abc")]
            reader = gowk.Reader("f")
            for key in keys:
                for many in (writer.update, writer.insert_many, writer.remove_many, writer.contains_many, reader.count_many):
                    with pytest.raises(TypeError, match=r"keys is one .*; give several keys, as in \[key\]"):
                        many(key)
        assert len(writer) == 0


TYPES = """
from collections.abc import Iterable, Sequence
import gowk, numpy as np

def right(one: list[str], two: Sequence[bytes], three: dict[str, int], four: set[str | bytes]) -> None:
    with gowk.Writer("f") as writer:
        writer.update(one)
        writer.update(two)
        writer.update(three)
        writer.update(four)
        writer.update(["a", b"b"])
        writer.update({"a", b"b"})
        writer.update(("a", bytearray(b"b")))
        writer.update([])
        writer.update(str(number) for number in range(3))
        writer.update(map(str, one))
        writer.update(np.array(["a"]))
        with open("lines") as lines:
            writer.update(lines)

def wrong(text: str, raw: bytes, either: Iterable[str]) -> None:
    with gowk.Writer("f") as writer:
        writer.update("abc")
        writer.update(text)
        writer.update(b"abc")
        writer.update(raw)
        writer.update(either)
        gowk.Reader("f").contains_many("abc")
        gowk.Store("s").shards_of("abc")
"""


def test_one_key_in_place_of_many_is_refused_by_types() -> None:
    pytest.importorskip("mypy.api")
    Path("typed.py").write_text(TYPES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    wrong = [number for number, line in enumerate(TYPES.splitlines(), 1) if number > TYPES[: TYPES.index("def wrong")].count("\n") + 2]
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [int(line.split(":")[1]) for line in errors] == wrong and all("[arg-type]" in line for line in errors), done.stdout


def test_what_is_not_iterable_is_a_type_error() -> None:
    with gowk.Writer("f", capacity=100) as writer, pytest.raises(TypeError, match="not iterable"):
        writer.update(3)  # type: ignore[arg-type]
