"""Invariants checked:

1. Batches of any kind answer as a set of the keys' bytes does, nulls excepted: they are never present, are skipped by
   updates, and have False in masks.
2. An update that ends in an exception has taken the keys that the exception says, and no others.
"""

from __future__ import annotations

import hashlib
import warnings
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import THOROUGH

import gowk

ALPHABET = ["", "a", "b", "é", "\U0001f426", "ab", "aé", "zz", "\0", "a\0b"]


def texts(rng: random.Random, number: int) -> list[str]:
    # Drawn from few possible keys, so that many occur again.
    return ["".join(rng.choices(ALPHABET, k=rng.randrange(3))) + str(rng.randrange(4)) for _ in range(number)]


def holed(rng: random.Random, keys: list[str]) -> list[str | None]:
    return [None if rng.random() < 0.2 else key for key in keys]


def encoded(keys: list[str | None]) -> list[bytes | None]:
    return [None if key is None else key.encode() for key in keys]


def chunked(rng: random.Random, array: pa.Array) -> pa.ChunkedArray:
    cuts = sorted(rng.randrange(len(array) + 1) for _ in range(rng.randrange(3)))
    bounds = [0, *cuts, len(array)]
    return pa.chunked_array([array[a:b] for a, b in zip(bounds, bounds[1:], strict=False)], array.type)


Kind = Callable[[random.Random, list[str]], tuple[Any, list[bytes | None]]]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__] = make
    return make


@kind
def list_of_str(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    return keys, encoded([*keys])


@kind
def tuple_of_bytes(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    return tuple(key.encode() for key in keys), encoded([*keys])


@kind
def mixed_list(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    forms: list[Callable[[str], Any]] = [str, str.encode, lambda k: bytearray(k.encode()), lambda k: memoryview(k.encode())]
    return [rng.choice(forms)(key) for key in keys], encoded([*keys])


@kind
def generator(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    return (key for key in keys), encoded([*keys])


@kind
def dictionary_views(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    unique = dict.fromkeys(keys)
    return unique.keys(), encoded([*unique])


@kind
def numpy_bytes(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    array = np.array([key.encode() for key in keys], dtype="S")
    return array, [bytes(key) for key in array.tolist()]


@kind
def numpy_text(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    array = np.array(keys, dtype="U")
    if rng.random() < 0.5:
        array = array.astype(array.dtype.newbyteorder())
    return array, [key.encode() for key in array.tolist()]


@kind
def numpy_strided(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    array = np.array(keys, dtype="U")[:: rng.choice([2, -1, 3])]
    return array, [key.encode() for key in array.tolist()]


@kind
def numpy_objects(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    array = np.empty(len(keys), dtype=object)
    array[:] = [rng.choice([key, key.encode()]) for key in keys]
    return array, encoded([*keys])


def arrow(type_: Callable[[], pa.DataType], text: bool) -> Kind:
    def make(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
        held = holed(rng, keys) if rng.random() < 0.7 else [*keys]
        array = pa.array(held if text else encoded(held), type_())
        start = rng.randrange(len(array) + 1)
        stop = rng.randrange(start, len(array) + 1)
        form = rng.randrange(4)
        if form == 0:
            return array, encoded(held)
        if form == 1:
            return array[start:stop], encoded(held[start:stop])
        if form == 2:
            return chunked(rng, array), encoded(held)
        return pa.table({"url": chunked(rng, array)}), encoded(held)

    return make


for name, type_, text in [
    ("string", pa.string, True),
    ("large_string", pa.large_string, True),
    ("string_view", pa.string_view, True),
    ("binary", pa.binary, False),
    ("large_binary", pa.large_binary, False),
    ("binary_view", pa.binary_view, False),
]:
    KINDS[f"arrow_{name}"] = arrow(type_, text)


@kind
def arrow_fixed(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    held = [None if key is None else key.encode().ljust(8, b".")[:8] for key in holed(rng, keys)]
    return pa.array(held, pa.binary(8)), [*held]


@kind
def arrow_dictionary(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    held = holed(rng, keys)
    array = pa.array(held, pa.string()).dictionary_encode()
    start = rng.randrange(len(array) + 1)
    return (array, encoded(held)) if rng.random() < 0.5 else (array[start:], encoded(held[start:]))


@kind
def arrow_dictionary_with_null_values(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    values = ["x", None, "y"]
    indices = [rng.choice([0, 1, 2, None]) for _ in keys]
    array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(values, pa.string()))
    return array, encoded([None if index is None else values[index] for index in indices])


@kind
def arrow_nulls(rng: random.Random, keys: list[str]) -> tuple[Any, list[bytes | None]]:
    return pa.nulls(len(keys)), [None] * len(keys)


def first_seen(keys: list[bytes | None], seen: set[bytes]) -> list[bool]:
    mask = []
    for key in keys:
        mask.append(key is not None and key not in seen)
        if key is not None:
            seen.add(key)
    return mask


@pytest.mark.timeout(3600 if THOROUGH else 300)
def test_random_batches_answer_as_a_set_does() -> None:
    batches = 1_000_000 if THOROUGH else 20_000
    rng = random.Random(20)
    makers = list(KINDS.values())
    done = 0
    # With 2 slots a bucket, false positives are too rare to occur in this test.
    while done < batches:
        writer = gowk.Writer(f"f{done}", capacity=10_000, slots_per_bucket=2)
        model: set[bytes] = set()
        for _ in range(min(2000, batches - done)):
            done += 1
            keys, held = rng.choice(makers)(rng, texts(rng, rng.choice([0, 1, 2, 5, 20, 300])))
            action = rng.randrange(3)
            if action == 0:
                mask = writer.insert_many(keys)
                assert mask.dtype == bool and mask.tolist() == first_seen(held, model)
            elif action == 1:
                assert writer.update(keys) is None
                first_seen(held, model)
            else:
                found = writer.contains_many(keys)
                assert found.tolist() == [key in model for key in held]
            if rng.random() < 0.01:
                writer.commit()
                keys, held = rng.choice(makers)(rng, texts(rng, 300))
                assert gowk.Reader(writer.path).contains_many(keys).tolist() == [key in model for key in held]
        assert len(writer) == len(model)
        writer.rollback()
        writer.close()
    print(f"{done} batches")


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_in_large_batches(name: str) -> None:
    rng = random.Random(name)
    keys, held = KINDS[name](rng, [f"{i}-é" for i in range(40_000)])
    again = KINDS[name](random.Random(name), [f"{i}-é" for i in range(40_000)])[0]
    with gowk.Writer("f", capacity=100_000, slots_per_bucket=2, seed=1) as writer:
        assert writer.insert_many(keys).tolist() == first_seen(held, set())
    reader = gowk.Reader("f", threads=2)
    assert reader.contains_many(again).tolist() == [key is not None for key in held]


def test_copies_are_counted_and_removed_by_batches() -> None:
    with gowk.Writer("f", capacity=1000, counting=True) as writer:
        assert writer.insert_many(pa.array(["a", None, "b", "a"])).tolist() == [True, False, True, False]
        assert writer.count_many(["a", "b", "c"]).tolist() == [2, 1, 0]
        assert writer.count_many(pa.array(["a", None])).tolist() == [2, 0]
        assert writer.remove_many(pa.array(["a", None, "c", "a", "a"])).tolist() == [True, False, False, True, False]
    reader = gowk.Reader("f")
    counts = reader.count_many(np.array(["a", "b"]))
    assert counts.dtype == np.uint64 and counts.tolist() == [0, 1]
    assert len(reader) == 1


def broken(number: int, error: BaseException) -> Iterator[str]:
    for index in range(number):
        yield str(index)
    raise error


@pytest.mark.parametrize("number", [0, 1, 1000, 1_048_576, 1_100_000])
def test_what_an_iterable_gave_before_it_raised_is_taken(number: int) -> None:
    writer = gowk.Writer("f", capacity=2_000_000, slots_per_bucket=2, seed=1)
    with pytest.raises(ZeroDivisionError) as caught:
        writer.insert_many(broken(number, ZeroDivisionError("mine")))
    error: Any = caught.value
    assert error.taken == number and error.mask.tolist() == [True] * number
    expected = f"keys[0:{number}] were taken; commit() keeps" if number else "no key was taken"
    assert expected in error.__notes__[0]
    assert len(writer) == number
    writer.rollback()
    assert len(writer) == 0


@pytest.mark.parametrize(
    "keys",
    [
        ["0", "1", None, "3"],
        iter(["0", "1", 7, "3"]),
        np.array(["0", "1", "\ud800", "3"]),
        np.ma.masked_array(["0", "1", "2", "3"], [False, False, True, False]),
    ],
    ids=["list", "iterator", "text", "masked"],
)
def test_keys_before_one_that_is_none_are_taken(keys: Any) -> None:
    with gowk.Writer("f", capacity=100) as writer:
        with pytest.raises(TypeError, match=r"keys\[2\] is ") as caught:
            writer.update(keys)
        error: Any = caught.value
        assert error.taken == 2
        assert writer.contains_many(["0", "1", "3"]).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.zeros((2, 2), "S3"), "2 dimensions"),
        (np.array(b"abc"), "0 dimensions"),
        (np.array([1, 2]), r"keys\[0\] is numpy.int64"),
        (pa.array([1, 2]), "Arrow array of Int64"),
        (pa.table({"a": ["x"], "b": ["y"]}), r"a table \(a: Utf8, b: Utf8\)"),
        (pa.array([["a"]]), "Arrow array of List"),
    ],
    ids=["2d", "0d", "ints", "arrow ints", "table", "arrow lists"],
)
def test_what_holds_no_keys_is_a_type_error(keys: Any, message: str) -> None:
    with gowk.Writer("f", capacity=100) as writer:
        with pytest.raises(TypeError, match=message):
            writer.update(keys)
        assert len(writer) == 0


def test_keys_without_room_are_named_and_the_others_taken() -> None:
    writer = gowk.Writer("f", capacity=1000, growth="never", slots_per_bucket=4, seed=1)
    slots = writer.info().slots
    with pytest.raises(gowk.NoRoom) as caught:
        writer.insert_many(str(index) for index in range(2 * slots))
    error: Any = caught.value
    assert error.taken == 2 * slots and error.refused > 0.9 * slots
    assert len(error.mask) == 2 * slots
    assert "that had no room, the first keys[" in error.__notes__[0]
    stored = writer.contains_many(str(index) for index in range(2 * slots))
    assert not stored[error.index] and error.mask[error.index], "a key that had no room is new"
    assert (error.mask & ~stored).sum() <= error.refused, "every other key that the mask calls new is there"
    assert (stored | error.mask).all(), "what is not there is new"


def test_an_iterable_may_use_the_writer_meanwhile() -> None:
    with gowk.Writer("f", capacity=1000, seed=1) as writer:
        writer.update(key for key in map(str, range(1000)) if key not in writer and not writer.add(key + "x"))
        assert len(writer) == 2000


def test_an_iterable_that_closes_the_writer() -> None:
    writer = gowk.Writer("f", capacity=1000)

    def keys() -> Iterator[str]:
        yield "a"
        writer.rollback()
        writer.close()
        yield "b"

    with pytest.raises(ValueError, match="closed"):
        writer.update(keys())


def test_none_in_an_array_of_objects_is_a_null() -> None:
    keys = np.array([None, "0", b"1", None, "2", None], dtype=object)
    with gowk.Writer("f", capacity=100) as writer:
        assert writer.insert_many(keys).tolist() == [False, True, True, False, True, False]
        assert len(writer) == 3
        assert writer.contains_many(keys).tolist() == [False, True, True, False, True, False]
        assert writer.insert_many(np.array([None, None], dtype=object)).tolist() == [False, False]


def test_digests_keep_their_zero_bytes_in_arrays_of_bytes() -> None:
    digests = [hashlib.sha1(str(number).encode()).digest() for number in range(2000)]
    cut = sum(digest.endswith(b"\0") for digest in digests)
    assert cut > 0
    with gowk.Writer("f", capacity=10_000, slots_per_bucket=2) as writer:
        assert writer.insert_many(np.array(digests, dtype="V20")).all()
        assert writer.contains_many(digests).all()
        with pytest.warns(UserWarning, match="dtype S20.*dtype V20"):
            found = writer.contains_many(np.array(digests))
        assert np.count_nonzero(~found) == cut
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            writer.contains_many(np.array([key.encode() for key in ["a", "https://example.org/", "\u00e9" * 9]]))
            with pytest.raises(TypeError, match=r"keys\[0\] is numpy.void"):
                writer.insert_many(np.zeros(2, dtype=[("a", "V20")]))
