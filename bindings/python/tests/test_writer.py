"""Invariants checked:

1. Changes are seen by others from the commit on, and not at all after a rollback or an exception in the block.
2. Errors are Python's own kinds where there is one, and carry what the message says.
3. A writer that is closed, used by its own callback, or unpickled says so.
"""

from __future__ import annotations

import errno
import gc
import os
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import gowk


def test_a_block_commits_and_closes() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
        writer.metadata["page"] = b"17"
        assert not Path("f").exists(), "a new filter has its name from its first commit on"
    reader = gowk.Reader("f")
    assert "a" in reader and len(reader) == 1
    assert dict(reader.metadata) == {"page": b"17"}
    assert writer.closed


def test_an_exception_rolls_back() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
    with pytest.raises(ZeroDivisionError), gowk.Writer("f") as writer:
        writer.add("b")
        writer.metadata["page"] = b"17"
        raise ZeroDivisionError
    reader = gowk.Reader("f")
    assert "a" in reader and "b" not in reader and not reader.metadata
    with gowk.Writer("f") as writer:
        assert "b" not in writer


def test_a_reader_sees_commits_when_they_return() -> None:
    writer = gowk.Writer("f", capacity=100)
    writer.commit()
    reader = gowk.Reader("f")
    writer.add("a")
    assert "a" in writer and "a" not in reader
    writer.commit()
    assert "a" in reader
    writer.add("b")
    writer.rollback()
    assert "b" not in writer
    writer.close()
    writer.close()
    assert "a" in reader


def test_a_reader_follows_doublings() -> None:
    with gowk.Writer("f", capacity=1000) as writer:
        writer.add("a")
        writer.commit()
        reader = gowk.Reader("f")
        told: list[tuple[int, int]] = []
        writer.grow(lambda done, all: told.append((done, all)))
        assert told[-1][0] == told[-1][1] > 0
        writer.update(map(str, range(100_000)))
        writer.commit()
        assert "99999" in reader and reader.info().generation == writer.info().generation > 1


def test_modes() -> None:
    with pytest.raises(gowk.NotFound):
        gowk.Writer("f", mode="r+")
    with gowk.Writer("f", mode="x", seed=7) as writer:
        writer.add("a")
    with pytest.raises(gowk.Exists) as exists:
        gowk.Writer("f", mode="x")
    assert isinstance(exists.value, FileExistsError) and exists.value.errno == errno.EEXIST
    with gowk.Writer("f", mode="r+") as writer:
        assert "a" in writer and writer.info().seed == 7
    with gowk.Writer("f", mode="w") as writer:
        assert "a" not in writer
    with pytest.raises(ValueError, match="mode is"):
        gowk.Writer("f", mode="rw")  # type: ignore[arg-type]


def test_one_writer_at_a_time() -> None:
    with gowk.Writer("f", capacity=100):
        with pytest.raises(gowk.Locked, match="locked by another writer") as caught:
            gowk.Writer("f")
        assert caught.value.path == os.path.abspath("f")
    gowk.Writer("f").close()


def test_errors_of_the_system_are_os_errors() -> None:
    with pytest.raises(FileNotFoundError) as missing:
        gowk.Reader("nothing/here")
    assert missing.value.errno == errno.ENOENT and str(missing.value.filename).endswith("nothing")
    assert type(missing.value) is gowk.NotFound
    Path("folder").mkdir()
    with pytest.raises(gowk.Io) as folder:
        gowk.Writer("folder")
    travelled = pickle.loads(pickle.dumps(folder.value))
    for error in (folder.value, travelled):
        assert isinstance(error, IsADirectoryError) and isinstance(error, gowk.Io) and type(error).__name__ == "Io"
        assert error.errno == errno.EISDIR
    Path("file").write_text("hello " * 1000)
    with pytest.raises(gowk.Foreign, match="not a gowk filter"):
        gowk.Reader("file")


def test_errors_travel() -> None:
    with pytest.raises(gowk.NotFound) as caught:
        gowk.Reader("f")
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is gowk.NotFound
    assert str(error) == str(caught.value)
    assert (error.errno, error.filename, error.path) == (errno.ENOENT, caught.value.filename, caught.value.path)
    with gowk.Writer("g"), pytest.raises(gowk.Locked) as locked:
        gowk.Writer("g")
    error = pickle.loads(pickle.dumps(locked.value))
    assert type(error) is gowk.Locked and error.path == locked.value.path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 0}, "capacity"),
        ({"false_positive_rate": 2.0}, "false-positive rate is 2"),
        ({"false_positive_rate": 1e-3, "slots_per_bucket": 4}, "given alone"),
        ({"slots_per_bucket": 8}, "2 to 7"),
        ({"growth": "maybe"}, '"auto" or "never"'),
        ({"threads": 0}, "threads is 0"),
        ({"wait": -1.0}, "wait is -1"),
        ({"verify": "sometimes"}, "verify is"),
    ],
)
def test_options_outside_their_range_are_value_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gowk.Writer("f", **arguments)
    assert not Path("f").exists()


def test_a_filter_that_is_not_selective_enough_is_refused() -> None:
    gowk.Writer("f", slots_per_bucket=7).commit()
    with pytest.raises(gowk.Invalid, match="but 1.00e-6 was asked for"):
        gowk.Writer("f", false_positive_rate=1e-6)


def test_a_set_holds_each_key_once_and_refuses_removal() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        assert writer.info().kind == "set" and writer.info().key_rules == ""
        assert writer.insert("a") and not writer.insert("a")
        assert writer.insert_many(["a", "b", "b"]).tolist() == [False, True, False]
        assert writer.add("b") is None and writer.update(["b", "c"]) is None
        with pytest.raises(gowk.WrongKind, match="is a set, but removing keys needs a counting filter") as caught:
            writer.remove("a")
        assert caught.value.path == os.path.abspath("f")
        assert str(caught.value).endswith("; create another filter for that, with `counting=True`")
        with pytest.raises(gowk.WrongKind) as many:
            writer.remove_many(["a"])
        assert "no key was taken" in many.value.__notes__[0]
        assert writer.count_many(["a", "b", "c", "d"]).tolist() == [1, 1, 1, 0] and len(writer) == 3
    with pytest.raises(gowk.WrongKind, match="is a set.*`counting=True`"):
        gowk.Writer("f", counting=True)
    assert gowk.Reader("f").contains_many(["a", "b", "c"]).all()


def test_a_counting_filter_counts_copies() -> None:
    with gowk.Writer("f", capacity=100, counting=True) as writer:
        assert writer.info().kind == "counting"
        assert writer.insert("a") and not writer.insert("a")
        assert writer.insert_many(["a", "b", "b"]).tolist() == [False, True, False]
        assert writer.add("b") is None and writer.update(["b", "c"]) is None
        assert writer.count_many(["a", "b", "c", "d"]).tolist() == [3, 4, 1, 0] and len(writer) == 8
        assert writer.remove("a") and not writer.remove("d")
    # Without a kind asked for, a filter of either kind is opened.
    with gowk.Writer("f") as writer:
        assert writer.remove_many(["a", "a", "a", "b"]).tolist() == [True, True, False, True]
        assert "a" not in writer and writer.count("b") == 3
    assert gowk.Reader("f").info().kind == "counting"


def test_closing_with_changes_says_that_they_are_lost() -> None:
    writer = gowk.Writer("f", capacity=100)
    writer.add("a")
    writer.commit()
    writer.add("b")
    with pytest.raises(gowk.Uncommitted, match="call `commit` before `close`"):
        writer.close()
    assert writer.closed
    writer.close()
    assert gowk.Reader("f").contains_many(["a", "b"]).tolist() == [True, False]
    # Creating a filter is a change: the filter has its name from its first commit on.
    with pytest.raises(gowk.Uncommitted):
        gowk.Writer("g").close()
    assert not Path("g").exists()
    writer = gowk.Writer("f")
    writer.metadata["page"] = b"17"
    writer.rollback()
    writer.close()
    # Within a block, too.
    with pytest.raises(gowk.Uncommitted), gowk.Writer("f") as writer:
        writer.add("b")
        writer.close()
    assert "b" not in gowk.Reader("f")


def test_metadata_is_a_mutable_mapping() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        metadata = writer.metadata
        metadata["b"] = b"2"
        metadata["a"] = bytearray(b"1")
        metadata.update({"c": b"3"})
        assert dict(metadata) == {"a": b"1", "b": b"2", "c": b"3"} and len(metadata) == 3
        assert metadata.pop("c") == b"3" and "c" not in metadata
        with pytest.raises(KeyError):
            del metadata["c"]
        with pytest.raises(KeyError):
            metadata["c"]
        writer.metadata["text"] = "\u00e9"
        assert writer.metadata["text"] == "\u00e9".encode()
        del writer.metadata["text"]
        with pytest.raises(TypeError):
            metadata[3] = b"4"  # type: ignore[index]
        writer.commit()
        metadata["long"] = bytes(60_000)
        with pytest.raises(gowk.Invalid, match="exceeds the 49152 that a filter holds"):
            writer.commit()
        del metadata["long"]
    entries: Any = gowk.Reader("f").metadata
    assert entries == {"a": b"1", "b": b"2"}
    with pytest.raises(TypeError):
        entries["a"] = b"9"


def test_a_failed_commit_leaves_the_writer_open() -> None:
    writer = gowk.Writer("f", capacity=100)
    with pytest.raises(gowk.Invalid), writer:
        writer.add("a")
        writer.metadata["long"] = bytes(60_000)
    assert not writer.closed
    writer.metadata.clear()
    writer.commit()
    writer.close()
    assert "a" in gowk.Reader("f")


def test_a_closed_writer_says_so() -> None:
    writer = gowk.Writer("f", capacity=100)
    writer.commit()
    writer.close()
    for call in (
        lambda: writer.add("a"),
        lambda: writer.update(["a"]),
        lambda: "a" in writer,
        lambda: writer.commit(),
        lambda: len(writer),
        lambda: writer.metadata["a"],
        lambda: writer.grow(),
    ):
        with pytest.raises(ValueError, match="this Writer is closed"):
            call()


def test_a_writer_in_its_own_callback_says_so() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        with pytest.raises(RuntimeError, match="used by a function that this Writer has called"):
            writer.grow(lambda done, all: writer.add("a"))
        writer.add("a")
        assert writer.info().generation == 0, "the doubling was not made"


def test_a_writer_cannot_be_pickled() -> None:
    with gowk.Writer("f", capacity=100) as writer, pytest.raises(TypeError, match=r"send a gowk\.Reader"):
        pickle.dumps(writer)


def test_info_is_frozen() -> None:
    with gowk.Writer("f", capacity=1000, false_positive_rate=1e-4, seed=5) as writer:
        writer.update(["a", "b"])
        info = writer.info()
    assert (info.capacity, info.seed, info.entries, info.requested_false_positive_rate) == (1000, 5, 2, 1e-4)
    assert 0 < info.expected_false_positive_rate < 1e-4
    reader = gowk.Reader("f")
    assert reader.info().uuid == info.uuid and reader.info().commit == 1
    assert reader.expected_false_positive_rate == info.expected_false_positive_rate
    with pytest.raises(AttributeError):
        info.seed = 6  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(info)) == info


def test_verify_copy_and_repair() -> None:
    with gowk.Writer("f", capacity=100_000) as writer:
        writer.update(map(str, range(50_000)))
    reader = gowk.Reader("f")
    told: list[tuple[int, int]] = []
    assert reader.verify(lambda done, all: told.append((done, all))).is_clean
    assert told[-1][0] == told[-1][1] == reader.verify().pages
    reader.copy_to("copy")
    with pytest.raises(FileExistsError):
        reader.copy_to("copy")
    length = Path("copy").stat().st_size
    with open("copy", "r+b") as file:
        file.seek(length - 100_000)
        file.write(b"\xff" * 100)
    report = gowk.Reader("copy").verify()
    assert not report.is_clean and len(report.damaged) == 1
    damaged = gowk.Reader("copy")
    with pytest.raises(gowk.Damaged) as caught:
        damaged.contains_many(map(str, range(50_000)))
    assert (caught.value.page, caught.value.region) == (report.damaged[0].page, report.damaged[0].region)
    assert gowk.Reader("copy", on_damage="present").contains_many(map(str, range(50_000))).all()
    with gowk.Writer("copy") as writer:
        assert writer.repair().quarantined == report.damaged
    assert gowk.Reader("copy").verify().is_clean
    assert gowk.Reader("copy").contains_many(map(str, range(50_000))).all()


def test_an_exception_of_a_callback_ends_the_call() -> None:
    with gowk.Writer("f", capacity=1_000_000) as writer:
        writer.add("a")
    reader = gowk.Reader("f")

    def stop(done: int, all: int) -> None:
        raise ZeroDivisionError(done)

    with pytest.raises(ZeroDivisionError):
        reader.verify(stop)
    with pytest.raises(ZeroDivisionError):
        reader.copy_to("copy", stop)
    assert not Path("copy").exists()
    assert "a" in reader
    with gowk.Writer("f") as writer:
        with pytest.raises(ZeroDivisionError):
            writer.repair(stop)
        with pytest.raises(ZeroDivisionError):
            writer.grow(stop)
        writer.add("b")
    assert "a" in reader and "b" in reader


def test_a_reader_in_memory_stays_as_it_was() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
        writer.commit()
        reader = gowk.Reader("f", in_memory=True)
        writer.add("b")
    assert "a" in reader and "b" not in reader
    os.unlink("f")
    assert "a" in reader


def test_a_shard_refuses_keys_of_others_and_shards_are_joined() -> None:
    with gowk.Writer("whole", capacity=100_000, slots_per_bucket=4, seed=3) as whole:
        whole.update(map(str, range(1000)))
    gowk.Reader("whole").divide_to(["0", "1"])
    shards = [gowk.Reader("0"), gowk.Reader("1")]
    assert [(shard.info().shard, shard.info().shards) for shard in shards] == [(0, 2), (1, 2)]
    assert sum(map(len, shards)) == len(gowk.Reader("whole"))
    with pytest.raises(gowk.Invalid, match="holds shard 0 of 2, and the key belongs to shard 1"):
        shards[0].contains_many(map(str, range(1000)))
    gowk.join(shards, "joined")
    assert gowk.Reader("joined").contains_many(map(str, range(1000))).all()
    with pytest.raises(gowk.Invalid):
        gowk.join(shards[::-1], "again")
    with gowk.Writer("third", shard=(2, 3), slots_per_bucket=4) as third:
        assert (third.info().shard, third.info().shards) == (2, 3)
    with pytest.raises(ValueError, match="shard is 3"):
        gowk.Writer("fourth", shard=(3, 3))


def test_a_filter_like_another() -> None:
    gowk.Writer("f", capacity=5000, seed=9, slots_per_bucket=3).commit()
    with gowk.Writer("g", like=gowk.Reader("f")) as like:
        like.add("a")
        assert (like.info().seed, like.info().slots_per_bucket, like.info().capacity) == (9, 3, 5000)
        assert like.info().uuid != gowk.Reader("f").info().uuid


def test_a_sealed_filter_needs_no_rights(folder: Path) -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
        writer.commit()
        with pytest.raises(gowk.Invalid):
            gowk.Reader("f", sealed=True)
    reader = gowk.Reader("f", sealed=True)
    assert "a" in reader and "a" in pickle.loads(pickle.dumps(reader))


def test_a_reader_follows_a_filter_that_takes_the_name() -> None:
    for name, key in [("live", "old"), ("new", "fresh")]:
        with gowk.Writer(name, capacity=100) as writer:
            writer.add(key)
    reader = gowk.Reader("live")
    assert "old" in reader and not reader.reload()
    os.replace("new", "live")
    assert reader.contains_many(["old", "fresh"]).tolist() == [False, True]
    assert "fresh" in reader
    with gowk.Writer("next", capacity=100) as writer:
        writer.add("next")
    gowk.Reader("next").copy_to("live", over=True)
    reader.reload()
    assert "next" in reader
    with pytest.raises(gowk.Exists):
        gowk.Reader("next").copy_to("live")


def test_single_lookups_follow_a_filter_that_takes_the_name() -> None:
    for name, key in [("live", "old"), ("new", "fresh"), ("newer", "fresher")]:
        with gowk.Writer(name, capacity=100, counting=True) as writer:
            writer.add(key)
    reader = gowk.Reader("live")
    assert "old" in reader
    for name, is_there in [("new", lambda: "fresh" in reader), ("newer", lambda: reader.count("fresher") == 1)]:
        os.replace(name, "live")
        # They look at the name again half a second after the last look.
        deadline = time.monotonic() + 60
        while not is_there():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_path_may_be_bytes() -> None:
    with gowk.Writer(b"f", capacity=100) as writer:
        writer.add("a")
    assert "a" in gowk.Reader(b"f") and writer.path == Path("f").absolute()
    store = gowk.Store.create(b"s", shards=1)
    assert store.path == Path("s").absolute()


def test_a_writer_that_is_dropped_with_changes_warns() -> None:
    writer = gowk.Writer("f", capacity=100)
    writer.add("a")
    with pytest.warns(ResourceWarning, match="f: dropped with uncommitted changes"):
        del writer
        gc.collect()
    store = gowk.Store.create("s", shards=1)
    update = store.update()
    update.update(["a"])
    with pytest.warns(ResourceWarning, match="s: an Update was dropped with uncommitted changes"):
        del update
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer, update = gowk.Writer("f", capacity=100), store.update()
        writer.add("a")
        writer.commit()
        del writer, update
        gc.collect()


def test_the_repr_of_a_writer_says_that_it_is_closed() -> None:
    writer = gowk.Writer("f", capacity=100)
    assert repr(writer) == f"gowk.Writer({str(writer.path)!r})"
    writer.commit()
    writer.close()
    assert repr(writer) == f"<closed gowk.Writer({str(writer.path)!r})>"


def test_an_address_is_no_filter() -> None:
    for open_it in (gowk.Reader, gowk.Writer):
        with pytest.raises(ValueError, match="s3://b/p: the address of a store.*gowk.Store"):
            open_it("s3://b/p")


def test_a_sub_interpreter_is_refused_and_does_not_hang() -> None:
    code = r"""if True:
        try:
            import _interpreters as interpreters
            create, run = (lambda: interpreters.create("legacy")), interpreters.exec
        except ImportError:
            import _xxsubinterpreters as interpreters
            create, run = (lambda: interpreters.create(isolated=False)), interpreters.run_string
        run(create(), 'try:\n    import gowk\nexcept ImportError as error:\n    print(error)\n')
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and "does not run in a sub-interpreter" in ended.stdout, ended
