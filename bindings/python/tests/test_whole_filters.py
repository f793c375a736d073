"""Invariants checked:

1. What is merged is found, in the union of sets and in the sum of counting filters; what cannot be merged is refused with a reason, and nothing has changed.
2. Shrinking undoes a doubling and keeps every key; limits of growth are changed at once.
3. What a filter says of itself counts copies.
4. A filter read from bytes answers as the file does, in this process, a child and a pickle; bytes that are no whole filter are refused.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import gowk


def keys(*numbers: int) -> list[str]:
    return [f"key {number}" for number in range(*numbers)]


def filled(path: str, numbers: tuple[int, int], **options: Any) -> gowk.Reader:
    with gowk.Writer(path, **options) as writer:
        writer.update(keys(*numbers))
    return gowk.Reader(path)


def test_a_union_has_all_keys() -> None:
    one = filled("one", (0, 6000), capacity=10_000, slots_per_bucket=2, seed=1)
    two = filled("two", (4000, 9000), like=one)
    told: list[tuple[int, int]] = []
    with gowk.Writer("one") as writer:
        writer.merge(two, progress=lambda done, all: told.append((done, all)))
        assert writer.contains_many(keys(9000)).all() and "key 8000" not in one
        info = writer.info()
        assert info.kind == "set" and info.entries == info.copies == 9000
    assert told and told[-1][0] == told[-1][1]
    assert one.contains_many(keys(9000)).all() and not one.contains_many(keys(9000, 10_000)).any()
    assert two.info().entries == 5000


def test_a_sum_adds_copies_up() -> None:
    one = filled("one", (0, 6000), capacity=10_000, slots_per_bucket=2, counting=True)
    two = filled("two", (4000, 9000), like=one)
    with gowk.Writer("one") as writer:
        writer.merge(two)
        assert writer.count_many(keys(9000)).tolist() == [1] * 4000 + [2] * 2000 + [1] * 3000
        assert writer.remove_many(keys(4000, 6000)).all()
    assert one.contains_many(keys(9000)).all() and one.info().copies == 9000


def test_a_merge_that_is_rolled_back_or_refused_changes_nothing() -> None:
    one = filled("one", (0, 1000), capacity=10_000)
    two = filled("two", (1000, 2000), like=one)
    other = filled("other", (0, 10), capacity=10_000)
    with gowk.Writer("one") as writer:
        writer.merge(two)
        writer.rollback()
        with pytest.raises(gowk.Invalid, match="has another seed, ") as unlike:
            writer.merge(other)
        # The seed is shown only on request.
        shown = f"{unlike.value} {unlike.value!r} {writer.info()!r} {other.info()!r}"
        assert not any(str(filter.info().seed) in shown for filter in (one, other))
        assert all(str(Path(name).absolute()) in str(unlike.value) for name in ("one", "other"))
        counting = filled("counting", (0, 10), capacity=10_000, counting=True)
        with pytest.raises(gowk.Invalid, match="one is a counting filter, the other a set"):
            writer.merge(counting)

        def raises(done: int, all: int) -> None:
            raise KeyError(done)

        with pytest.raises(KeyError):
            writer.merge(two, progress=raises)
        with pytest.raises(TypeError):
            writer.merge("two")  # type: ignore[arg-type]
    assert one.contains_many(keys(1000)).all() and one.contains_many(keys(1000, 2000)).sum() < 20


def test_shrinking_undoes_a_doubling() -> None:
    told: list[tuple[int, int]] = []
    with gowk.Writer("f", capacity=50_000) as writer:
        writer.update(keys(10_000))
        with pytest.raises(gowk.Invalid, match="will not shrink"):
            writer.shrink()
        assert writer.info().shrunk is None
        # Two keys with the same fingerprint share an entry, as if they were copies of one key.
        entries = writer.info().entries
        assert 9_990 <= entries <= 10_000
        writer.grow()
        shrunk = writer.info().shrunk
        assert shrunk is not None and shrunk.generation == 0 and shrunk.entries == entries
        writer.shrink(progress=lambda done, all: told.append((done, all)))
        assert writer.info().generation == 0 and writer.info().file_length == shrunk.file_length
    assert told and gowk.Reader("f").contains_many(keys(10_000)).all()


def test_limits_are_changed_at_once() -> None:
    writer = gowk.Writer("f", capacity=1000)
    limits = writer.limits
    assert limits == gowk.Limits(growth="auto", max_file_size=None, max_false_positive_rate=None)
    writer.commit()
    writer.set_limits(dataclasses.replace(limits, growth="never", max_false_positive_rate=0.5))
    writer.rollback()
    info = gowk.Reader("f").info()
    assert (info.growth, info.max_file_size, info.max_false_positive_rate) == ("never", None, 0.5)
    with pytest.raises(gowk.NoRoom):
        writer.update(keys(200_000))
    writer.rollback()
    for wrong in ({"max_file_size": 1}, {"max_false_positive_rate": 2.0}):
        with pytest.raises(gowk.Invalid):
            writer.set_limits(dataclasses.replace(limits, **wrong))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="growth is"):
        writer.set_limits(dataclasses.replace(limits, growth="perhaps"))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        writer.set_limits("auto")  # type: ignore[arg-type]


def test_info_counts_copies() -> None:
    with gowk.Writer("f", capacity=1000, slots_per_bucket=4, counting=True) as writer:
        for _ in range(40):
            writer.insert_many(["a", "b"])
        writer.insert("c")
        writer.remove("a")
        info = writer.info()
    assert (info.entries, info.copies, info.inserted, info.removed, info.saturated) == (3, 80, 81, 1, 0)
    assert info.digits == 2 * 2 and info.load == (3 + 4) / info.slots and len(gowk.Reader("f")) == 80
    assert (info.shards, info.shard) == (1, 0) and len(info.forecast) > 0
    assert info.forecast[0].file_length > info.file_length


@pytest.mark.parametrize("options", [{}, {"counting": True}, {"forget_after": 3600}])
def test_bytes_answer_as_the_file_does(options: dict[str, Any]) -> None:
    reader = filled("f", (0, 3000), capacity=5000, seed=1, **options)
    data = reader.to_bytes()
    assert isinstance(data, bytes) and len(data) == reader.info().file_length
    for form in (data, bytearray(data), memoryview(data)):
        read = gowk.Reader.from_bytes(form, threads=2, verify="eager")
        assert (read.contains_many(keys(5000)) == reader.contains_many(keys(5000))).all()
        assert "key 7" in read and len(read) == 3000 and read.verify().is_clean
        assert str(read.path) == "<bytes>" and not read.reload()
    again = pickle.loads(pickle.dumps(read))
    assert (again.count_many(keys(3000)) == reader.count_many(keys(3000))).all()
    Path("sent").write_bytes(data)
    with gowk.Writer("sent", mode="r+") as writer:
        writer.add("more")
    assert "more" in gowk.Reader.from_bytes(Path("sent").read_bytes())


def test_a_child_uses_a_filter_from_bytes() -> None:
    read = gowk.Reader.from_bytes(filled("f", (0, 3000)).to_bytes())
    child = os.fork()
    if child == 0:
        os._exit(0 if read.contains_many(keys(3000)).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_bytes_that_are_no_whole_filter_are_refused() -> None:
    with gowk.Writer("f", capacity=1000) as writer:
        writer.update(keys(100))
        writer.commit()
        with pytest.raises(gowk.Invalid, match="to_bytes|copy"):
            gowk.Reader.from_bytes(Path("f").read_bytes())
    data = Path("f").read_bytes()
    for wrong in (b"", b"a\nb\n", data[:-1], data + b"x"):
        with pytest.raises(gowk.Error, match="<bytes>"):
            gowk.Reader.from_bytes(wrong)
    with pytest.raises(TypeError):
        gowk.Reader.from_bytes("text")  # type: ignore[arg-type]
    with pytest.raises(gowk.Damaged):
        gowk.Reader.from_bytes(data[:-1] + bytes([data[-1] ^ 1]), verify="eager")
