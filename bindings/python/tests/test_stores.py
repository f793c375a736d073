"""Invariants checked:

1. A store answers as a set of its keys does, from whatever holds them; a key that was committed is always found.
2. A token that is repeated gives the same answers and changes nothing. Of two updates that change a shard one wins,
   and the other is told which version did. What a killed process leaves changes no answer.
3. A version answers the same for as long as it is looked into, or a clear exception says that it was vacuumed. A file, or a
   copy of one, that is not the one the version names is refused.
4. Stores travel to other processes, and are used on both sides of a fork; updates belong to one process; sealed files
   travel to whoever commits them.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bucket import IN_BUCKETS, files_of, needs_a_folder, path_of, place, working_copies
from conftest import THOROUGH

import gowk


def create(shards: int = 4, **options: Any) -> gowk.Store:
    return gowk.Store.create(place(), shards=shards, **{"capacity": 10_000, "slots_per_bucket": 2, "seed": 7, **options})


def keys(*numbers: int) -> list[str]:
    return [f"key {number}" for number in range(*numbers)]


def in_a_child(check: Callable[[], object]) -> None:
    """Calls ``check`` in a fork of this process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_plain_use() -> None:
    store = create()
    assert store.version == 1 and store.shards == 4 and store.path == path_of()
    assert store.insert_many(keys(100)).all()
    assert store.version == 2 and "key 7" in store and b"key 7" in store and "key 100" not in store
    assert store.insert_many(["key 99", "key 100", "key 100", b"key 100"]).tolist() == [False, True, False, False]
    assert store.contains_many(keys(101)).all() and not store.contains_many(keys(200, 300)).any()
    with pytest.raises(TypeError, match="key is int"):
        3 in store  # type: ignore[operator]  # noqa: B015
    assert repr(store).endswith("s', version=3)")


def test_an_update_commits_at_the_end_of_its_block_and_not_at_an_exception() -> None:
    store = create(counting=True)
    with store.update(operation="insert", token=("crawl", 1, "page 17")) as update:
        assert update.insert_many(["a", "b", "a"]).tolist() == [True, True, False]
        assert update.touched >= 1 and update.base == 1 and update.committed is None and not update.closed
        assert "a" not in store and "a" not in gowk.Store(place())
    assert update.closed and update.committed == gowk.StoreCommit(outcome="new", version=2, token=None)
    assert store.count("a") == 2 and store.count_many(["a", "b", "c"]).tolist() == [2, 1, 0]
    assert store.tokens["crawl"] == gowk.StoreToken(
        application="crawl", number=1, version=2, base=1, state="page 17"
    )
    with pytest.raises(ZeroDivisionError), store.update() as update:
        update.update(["c"])
        1 / 0  # noqa: B018
    assert update.closed and store.version == 2 and not store.reload() and "c" not in store
    with store.update() as update:
        assert update.remove_many(["a", "a", "a", "z"]).tolist() == [True, True, False, False]
    assert store.count("a") == 0 and "b" in store
    with store.update() as update:
        pass
    assert update.committed is not None and update.committed.outcome == "unchanged" and store.version == 3
    for call in (update.commit, update.seal, lambda: update.update(["a"]), lambda: update.touched):
        with pytest.raises(ValueError, match="this Update is closed"):
            call()
    update.close()
    assert working_copies(place()) == []


def test_a_set_holds_each_key_once_and_refuses_removal() -> None:
    store = create()
    assert store.insert_many(["a", "a"]).tolist() == [True, False] and store.count("a") == 1
    with pytest.raises(gowk.WrongKind, match="removing keys needs a counting filter"), store.update() as update:
        update.remove_many(["a"])
    assert "a" in store and store.version == 2


def test_a_counting_store_answers_a_retry_as_the_first_time() -> None:
    store = create(counting=True)
    for _ in range(2):
        assert store.insert_many(["a", "b", "a"], token=("crawl", 1)).tolist() == [True, True, False]
    for _ in range(2):
        assert store.insert_many(["a", "c"], token=("crawl", 2)).tolist() == [False, True]
    assert store.count_many(["a", "b", "c"]).tolist() == [3, 1, 1] and store.version == 3


def test_what_a_store_says_of_itself() -> None:
    store = create(shards=3, capacity=5000, max_file_size=1 << 30)
    before = datetime.now(timezone.utc) - timedelta(milliseconds=1)
    store.insert_many(keys(1000), operation="dedup")
    info = store.info()
    assert (info.shards, info.seed, info.slots_per_bucket, info.capacity) == (3, 7, 2, 5000)
    assert (info.kind, info.key_rules) == ("set", "") and gowk.Store(place()).info() == info
    assert (info.hash, info.growth, info.max_file_size, info.max_false_positive_rate) == ("xxh3", "auto", 1 << 30, None)
    assert (info.version, info.files, info.entries) == (2, 0, 1000)
    assert (info.runs, info.pending, info.run_bytes, info.bytes) == (1, 1000, 5 * 4096, 5 * 4096)
    assert info.expected_false_positive_rate == 0 and store.files == {}
    store.compact(all=True)
    info = store.info()
    assert (info.version, info.files, info.entries) == (3, 3, 1000) and (info.runs, info.pending, info.run_bytes) == (0, 0, 0)
    assert info.bits_per_key == info.bytes * 8 / 1000
    assert 0 < info.expected_false_positive_rate <= info.highest_false_positive_rate < 1e-6
    files = store.files
    assert list(files) == [0, 1, 2] and sum(file.entries for file in files.values()) == 1000
    for shard, file in files.items():
        assert file.shard == shard and Path(file.path).name == file.name
        assert files_of(place())[f"shards/{shard:04}/{file.name}"] == file.bytes
        assert file.since == 3 and file.uuid.hex in file.name
    with pytest.raises(TypeError):
        files[0] = files[1]  # type: ignore[index]
    first, second, third = store.log()
    assert (first.number, first.files, second.number, second.files, second.operation) == (1, 0, 2, 0, "dedup")
    assert second.entries == 1000 and second.bytes == 5 * 4096 and second.base == 1
    assert (third.operation, third.files, third.entries, third.bytes, third.base) == ("fold", 3, 1000, info.bytes, 2)
    assert before <= second.time <= datetime.now(timezone.utc) + timedelta(milliseconds=1)


@needs_a_folder("says what is wrong with folders")
def test_creating() -> None:
    create()
    assert gowk.Store.is_at("s") and not gowk.Store.is_at("t")
    with pytest.raises(gowk.Exists) as exists:
        create()
    assert isinstance(exists.value, FileExistsError) and exists.value.filename == str(Path("s").absolute())
    with pytest.raises(gowk.NotFound) as absent:
        gowk.Store("t")
    assert isinstance(absent.value, FileNotFoundError) and absent.value.path == str(Path("t").absolute())
    Path("empty").mkdir()
    with pytest.raises(gowk.Foreign, match="not a store"):
        gowk.Store("empty")
    for wrong in ({"shards": 0}, {"shards": 65_537}, {"false_positive_rate": 2.0, "slots_per_bucket": None}):
        with pytest.raises(gowk.Invalid):
            gowk.Store.create(place("t"), **{"shards": 1, **wrong})
    for wrong in ({"growth": "perhaps"}, {"slots_per_bucket": 8}, {"threads": 0}):
        with pytest.raises(ValueError):
            gowk.Store.create(place("t"), shards=1, **wrong)  # type: ignore[arg-type]
    assert not Path("t").exists()


def test_a_store_from_a_filter_and_a_filter_from_a_store() -> None:
    with gowk.Writer("f", capacity=20_000, slots_per_bucket=4) as writer:
        writer.update(keys(10_000))
    filter, told = gowk.Reader("f"), []
    with pytest.raises(ValueError, match="filter says what the store is"):
        gowk.Store.create(place(), shards=2, filter=filter, capacity=100)
    store = gowk.Store.create(place(), shards=2, filter=filter, progress=lambda done, all: told.append((done, all)))
    assert told and told[-1][0] == told[-1][1] and store.version == 2
    looked_up = keys(200_000)
    answers = filter.contains_many(looked_up)
    assert answers[:10_000].all() and (store.contains_many(looked_up) == answers).all()
    store.join_to("g", progress=lambda done, all: None)
    assert (gowk.Reader("g").contains_many(looked_up) == answers).all()

    def raises(done: int, all: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        store.join_to("h", progress=raises)
    assert not Path("h").exists()
    with pytest.raises(gowk.Invalid):
        gowk.Store.create(place("t"), shards=3, filter=filter)


def test_a_token_that_is_repeated_answers_as_the_first_time() -> None:
    store = create()
    batches = [keys(100), keys(50, 200) + keys(50, 200), keys(500)]
    first = [store.insert_many(batch, token=("crawl", number)) for number, batch in enumerate(batches)]
    assert first[1].tolist() == [False] * 50 + [True] * 100 + [False] * 150
    assert store.version == 4
    files = files_of(place())
    for _ in range(2):
        again = store.insert_many(batches[2], token=("crawl", 2))
        assert (again == first[2]).all()
    assert store.version == 4 and store.tokens["crawl"].number == 2
    # The update leaves nothing: its working copies were not sealed.
    assert files_of(place()) == files
    # Each application has tokens of its own.
    assert not store.insert_many(keys(10), token=("other", 0)).any() and store.version == 5
    before = store.before("crawl", 1)
    assert before.version == 2 and "key 150" not in before and "key 50" in before
    assert store.before("crawl", 3).version == 5
    with store.update(token=("crawl", 2)) as update:
        update.update(["never committed"])
    assert update.committed is not None and update.committed.outcome == "already"
    assert update.committed.version == 4 and update.committed.token == store.tokens["crawl"]
    assert "never committed" not in gowk.Store(place())


def test_of_two_updates_of_a_shard_one_wins() -> None:
    store = create()
    one, two, three = store.update(), store.update(), store.update(base=1)
    one.update(["a"])
    two.update(["a", "b"])
    apart = next(key for key in keys(100) if store.shards_of([key, "a"]).tolist() in ([0, 1], [0, 2], [0, 3], [1, 0]))
    three.update([apart])
    assert one.commit().version == 2
    with pytest.raises(gowk.Conflict) as lost:
        two.commit()
    shard = int(store.shards_of(["a"])[0])
    assert (lost.value.version, lost.value.base, lost.value.shard) == (2, 1, shard) and two.closed
    again = pickle.loads(pickle.dumps(lost.value))
    assert isinstance(again, gowk.Conflict) and again.version == 2 and str(again) == str(lost.value)
    # A change of another shard is put on top.
    assert three.commit().version == 3 and "a" in store and apart in store and "b" not in store


COMMITTER = """
import gowk, sys
store, name = gowk.Store(sys.argv[1]), sys.argv[2]
won = lost = 0
for number in range(int(sys.argv[3])):
    while True:
        try:
            with store.update(token=(name, number)) as update:
                update.update([f"{name} {number} {index}" for index in range(10)])
            won += 1
            break
        except gowk.Conflict as conflict:
            assert conflict.version > conflict.base
            lost += 1
print(won, lost)
"""


def test_processes_commit_side_by_side() -> None:
    store = create(shards=8)
    number = 40 if THOROUGH else 12
    processes = [
        subprocess.Popen([sys.executable, "-c", COMMITTER, place(), name, str(number)], stdout=subprocess.PIPE, text=True)
        for name in "abc"
    ]
    outcomes = [process.communicate()[0].split() for process in processes]
    assert [int(won) for won, _ in outcomes] == [number] * 3
    # All keys differ, so that their runs lie on top of each other.
    assert sum(int(lost) for _, lost in outcomes) == 0
    operations = [version.operation for version in store.log()]
    assert store.reload() and operations.count("update") == 3 * number and set(operations) == {"create", "update", "merge"}
    assert {name: done.number for name, done in store.tokens.items()} == dict.fromkeys("abc", number - 1)
    committed = [f"{name} {n} {index}" for name in "abc" for n in range(number) for index in range(10)]
    assert store.contains_many(committed).all() and store.info().entries == len(committed)


def fold(store: gowk.Store, shard: int) -> gowk.Sealed | None:
    return store.fold(shard, scratch="scratch")


def test_runs_are_folded_here_or_in_many_processes() -> None:
    store, other = create(), gowk.Store(place())
    assert store.compact(all=True) == gowk.CompactReport(version=None, folded=0, full=0, bytes=0)
    store.insert_many(keys(1000))
    assert store.to_fold() == [] and store.to_fold(all=True) == [0, 1, 2, 3]

    def raises(done: int, all: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        store.compact(all=True, progress=raises)
    assert gowk.Store(place()).version == 2
    told: list[tuple[int, int]] = []
    report = store.compact(all=True, progress=lambda done, all: told.append((done, all)))
    info = store.info()
    assert report == gowk.CompactReport(version=3, folded=4, full=0, bytes=info.bytes) and told == [(n, 4) for n in range(1, 5)]
    assert store.version == 3 and (info.files, info.runs) == (4, 0) and store.contains_many(keys(1000)).all()
    # By other processes. One shard is rewritten before the commit, and keeps that file.
    store.insert_many(keys(1000, 2000))
    Path("scratch").mkdir()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        folds = list(pool.map(fold, [store] * 4, range(4)))
    files = [one for one in folds if one is not None]
    assert [one.shard for one in files] == [0, 1, 2, 3] and sum(one.entries for one in files) == 2000
    assert list(Path("scratch").iterdir()) == []
    with pytest.raises(gowk.Invalid, match="a sealed file has kind fold, but this commit takes what updates sealed"):
        store.commit(files)
    other.reload()
    key = next(key for key in keys(3000, 3100) if other.shards_of([key])[0] == 2)
    with other.update(rewriting=True) as update:
        update.update([key])
    file = other.files[2]
    assert store.commit_folds(files).folded == 3 and store.files[2] == file
    assert store.contains_many([*keys(2000), key]).all() and store.info().pending == 0
    assert store.commit_folds(files).version is None
    for wrong in (4, 1 << 31):
        with pytest.raises(IndexError):
            store.fold(wrong)
    # A commit leaves the folds to others if it is told so.
    for start in (10_000, 40_000):
        update = store.update()
        update.update(keys(start, start + 30_000))
        store.commit(update.seal(), folds=False)
    assert store.to_fold() == [0, 1, 2, 3]
    store.insert_many(["one more"])
    assert store.to_fold() == [] and store.contains_many(keys(10_000, 70_000)).all()


KILLED = """
import gowk, itertools, sys
store = gowk.Store(sys.argv[1])
last = store.tokens.get("killed")
for number in itertools.count(last.number if last else 0):
    store.insert_many([f"{number} {index}" for index in range(2000)], token=("killed", number))
    print(number, flush=True)
"""


def test_a_killed_process_leaves_a_whole_store() -> None:
    store = create(shards=2, capacity=100_000)
    rounds = 20 if THOROUGH else 5
    chance = random.Random(1)
    done = -1
    for _ in range(rounds):
        child = subprocess.Popen([sys.executable, "-c", KILLED, place()], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        reached = done
        while reached <= done + 1:
            reached = int(child.stdout.readline())
        time.sleep(chance.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        reached = max([reached, *map(int, child.stdout.read().split())])
        child.wait()
        store.reload()
        committed = store.tokens["killed"].number
        assert reached <= committed <= reached + 1
        done = committed
        told = [f"{number} {index}" for number in range(committed + 1) for index in range(2000)]
        assert store.contains_many(told).all()
        # A run counts whole until all shards have folded it. Some of these keys are false positives.
        store.compact(all=True)
        assert len(told) * 0.999 <= store.info().entries <= len(told)
        assert all(isinstance(report, gowk.Report) and report.is_clean for report in store.verify().values())
    report = store.vacuum(keep=2, grace=0)
    assert report.versions >= done - 1 and not [name for name in files_of(place()) if name.startswith("incoming/")]
    assert gowk.Store(place()).contains_many(told).all()


def test_a_version_that_was_vacuumed_is_a_clear_exception() -> None:
    store = create()
    store.insert_many(keys(100), token=("crawl", 1))
    old, opened, update = gowk.Store(place()), gowk.Store(place()), store.update()
    assert opened.contains_many(keys(100)).all()
    update.update(keys(100, 110))
    store.insert_many(keys(100, 200))
    store.compact(all=True)
    told = store.vacuum(grace=0)
    # Version 1 stays, as the last token is based on it. The runs of two versions go.
    assert told.versions == 3 and told.files == 2 and told.version == 5 and told.bytes > 0 and told.foreign == 0
    assert told.uploads == 0 and not told.uploads_hidden
    # A file that is open stays readable.
    assert opened.contains_many(keys(100)).all() and not opened.contains_many(keys(100, 200)).any()
    with pytest.raises(gowk.NotFound, match="as version 2 is older than the store keeps; reload the newest version"):
        "key 7" in old  # noqa: B015
    assert old.reload() and old.version == 5 and "key 7" in old and "key 150" in old
    for call in (lambda: store.at(2), lambda: gowk.Store(place(), version=2), lambda: store.update(base=2)):
        with pytest.raises(gowk.NotFound, match="take the newest version, 5"):
            call()
    assert store.before("crawl", 1).version == 1 and store.insert_many(keys(100), token=("crawl", 1)).all()
    assert store.version == 5
    with pytest.raises(gowk.Conflict):
        update.commit()


def test_commits_vacuum_a_store_that_asks_for_it() -> None:
    with pytest.raises(gowk.Invalid, match="auto_vacuum"):
        gowk.Store.create(place(), shards=1, keep=0)
    store = gowk.Store.create(place(), shards=1, keep=2, grace=timedelta(seconds=1))
    for number in range(20):
        store.insert_many([f"key {number}"])
    # A commit vacuums once 16 versions can go. On a slow disk, one of the twenty has vacuumed already.
    deadline, number = time.monotonic() + 120, 0
    while number == 0 or len(store.log()) > 5:
        assert time.monotonic() < deadline, f"{len(store.log())} versions are left"
        time.sleep(1.5)
        store.insert_many([f"another {number}"])
        number += 1
    assert store.contains_many([f"key {number}" for number in range(20)]).all()


def test_an_update_that_a_vacuum_has_given_up() -> None:
    store = create()
    update = store.update()
    update.update(["a"])
    sealed = update.seal()
    with store.update(token=("other", 1)):
        pass
    store.vacuum(grace=0)
    with pytest.raises(gowk.Conflict, match="has given up updates of versions below") as expired:
        store.commit(sealed)
    assert (expired.value.base, expired.value.version) == (1, None) and "a" not in gowk.Store(place())


def change(
    store: gowk.Store, base: int, scratch: str, numbers: list[int], rewriting: bool
) -> tuple[list[gowk.Sealed], list[bool], int]:
    """The work of a task, in a separate process."""
    update = store.update(base=base, scratch=scratch, rewriting=rewriting)
    new = update.insert_many([f"key {number}" for number in numbers])
    return update.seal(), new.tolist(), os.getpid()


@pytest.mark.parametrize("rewriting", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_sealed_files_travel_to_whoever_commits_them(method: str, rewriting: bool) -> None:
    store = create()
    store.insert_many(keys(100))
    all_keys = keys(5000)
    shards = store.shards_of(pa.array(all_keys))
    assert shards.dtype == np.int32 and set(shards.tolist()) == {0, 1, 2, 3}
    Path("scratch").mkdir()
    parts = [np.flatnonzero(shards == shard).tolist() for shard in range(4)]
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        tasks = [pool.submit(change, store, 2, "scratch", part, rewriting) for part in parts]
        outcomes = [task.result() for task in tasks]
    assert os.getpid() not in {process for _, _, process in outcomes}
    for part, (sealed, new, _) in zip(parts, outcomes, strict=True):
        assert new == [number >= 100 for number in part] and len(sealed) == 1
    sealed = [one for outcome in outcomes for one in outcome[0]]
    # A run has the new keys alone. A shard that is rewritten has what was pending for it, too.
    assert [one.shard for one in sealed] == ([0, 1, 2, 3] if rewriting else [None] * 4) and {one.base for one in sealed} == {2}
    assert sum(one.entries for one in sealed) == (5000 if rewriting else 4900) and list(Path("scratch").iterdir()) == []
    as_text = [gowk.Sealed.from_json(one.to_json()) for one in sealed]
    assert as_text == sealed and len({*as_text, *sealed}) == 4 and json.loads(sealed[0].to_json()).get("shard") == sealed[0].shard
    assert "key 4999" not in store
    outcome = store.commit(as_text, base=store, token=("spark", 1))
    assert outcome == gowk.StoreCommit(outcome="new", version=3, token=None)
    assert store.version == 3 and store.contains_many(all_keys).all()
    # A run stays until a fold finds that no shard needs it.
    assert (store.info().files, store.info().runs) == ((4, 1) if rewriting else (0, 2))
    # A driver that did not hear of the commit tries again.
    outcome = store.commit(sealed, token=("spark", 1))
    assert outcome.outcome == "already" and outcome.version == 3
    with pytest.raises(gowk.Conflict):
        store.commit(sealed)
    assert store.commit([]).outcome == "unchanged"
    assert store.commit([], token=("spark", 2)).version == 4


@pytest.mark.parametrize("rewriting", [False, True])
def test_sealed_files_that_do_not_belong_together(rewriting: bool) -> None:
    store = create()
    other = gowk.Store.create(place("t"), shards=4)
    update = store.update(rewriting=rewriting)
    update.update(["a"])
    sealed = update.seal()
    for target, all, base in ((other, sealed, None), (store, sealed * 2, None), (store, sealed, 7)):
        with pytest.raises(gowk.Invalid, match="a sealed file has (store|file|base) "):
            target.commit(all, base=base)
    with pytest.raises(gowk.Invalid, match="a sealed file has kind update, but this commit takes folds"):
        store.commit_folds(sealed)
    with pytest.raises(ValueError, match="base is another store"):
        store.update(base=other)
    for text in ("", "{}", '{"shard": 1}'):
        with pytest.raises(ValueError, match="no sealed file"):
            gowk.Sealed.from_json(text)
    with pytest.raises(TypeError):
        store.commit(["a"])  # type: ignore[list-item]
    told: list[tuple[int, int]] = []
    update = store.update(rewriting=rewriting)
    update.update(keys(100))
    update.seal(progress=lambda done, all: told.append((done, all)))
    assert told == ([(1, 4), (2, 4), (3, 4), (4, 4)] if rewriting else [(1, 1)])


def look_up(store: gowk.Store, keys: list[str]) -> tuple[int, int, list[bool]]:
    return os.getpid(), store.version, [key in store for key in keys] + store.contains_many(keys).tolist()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_store_travels_with_its_version(method: str) -> None:
    store = create(threads=2)
    store.insert_many(["a"])
    old = gowk.Store(place(), threads=2)
    store.insert_many(["b"])
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        answers = list(pool.map(look_up, [store, old] * 4, [["a", "b", "c"]] * 8))
    assert [(version, found) for _, version, found in answers] == [
        (3, [True, True, False] * 2),
        (2, [True, False, False] * 2),
    ] * 4
    assert os.getpid() not in {process for process, _, _ in answers}


@needs_a_folder("renames the store")
def test_a_store_is_opened_where_it_is_used() -> None:
    store = create()
    store.insert_many(["a"])
    data = pickle.dumps(store)
    shutil.move("s", "t")
    again = pickle.loads(data)
    assert again.version == 2
    with pytest.raises(gowk.NotFound):
        "a" in again  # noqa: B015
    shutil.move("t", "s")
    assert "a" in again and again.shards == 4
    assert len(data) < 500


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_stores_and_updates_and_forks() -> None:
    store = create()
    store.insert_many(["a"])
    store.compact(all=True)
    assert "a" in store
    shard = store.shard(int(store.shards_of(["a"])[0]))
    assert shard is not None
    Path("scratch").mkdir()
    update, distinct = store.update(rewriting=True), store.distinct(100, folder="scratch")
    update.update(["b"])
    distinct.insert_many(["b"])

    def check() -> None:
        nonlocal update, distinct
        assert look_up(store, ["a", "b"])[1:] == (3, [True, False] * 2)
        assert "a" in shard
        assert store.insert_many(["c"]).tolist() == [True] and "c" in store and store.version == 4
        in_a_child(lambda: look_up(store, ["a", "c"])[2] == [True] * 4 or 1 / 0)
        calls: list[Callable[[], object]] = [
            lambda: update.update(["c"]), update.commit, update.seal, update.close, lambda: distinct.insert_many(["c"])
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="belongs to the other process"):
                call()
        del update, distinct

    in_a_child(check)
    # The child has removed nothing.
    assert len(list(Path("scratch").iterdir())) == 1 and len(working_copies(place())) == 1
    assert distinct.insert_many(["b", "c"]).tolist() == [False, True]
    assert store.version == 3 and store.reload() and "c" in store
    update.update(["d"])
    shard_of = store.shards_of(["b", "c", "d"]).tolist()
    if shard_of[1] in (shard_of[0], shard_of[2]):
        with pytest.raises(gowk.Conflict):
            update.commit()
    else:
        assert update.commit().version == 5


def test_what_belongs_to_a_process_is_not_pickled() -> None:
    store = create()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(store.update())
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(store.distinct(10))


def test_one_shard_alone() -> None:
    store = create()
    store.insert_many(["a", "b"])
    number = int(store.shards_of(["a"])[0])
    with pytest.raises(gowk.Invalid, match=f"shard {number} has records in runs.* compact it"):
        store.shard(number)
    store.compact(all=True)
    shard = store.shard(number)
    assert shard is not None and "a" in shard and shard.path.name == store.files[number].name
    assert IN_BUCKETS or shard.path == store.files[number].path
    assert shard.info().shard == number and shard.info().shards == 4 and shard.contains_many(["a"]).tolist() == [True]
    stranger = next(key for key in keys(100) if store.shards_of([key])[0] != number)
    with pytest.raises(gowk.Invalid, match=f"holds shard {number} of 4, and the key belongs to shard"):
        stranger in shard  # noqa: B015
    empty = next(number for number in range(4) if number not in store.files)
    assert store.shard(empty) is None
    for wrong in (4, 1 << 40):
        with pytest.raises((IndexError, OverflowError)):
            store.shard(wrong)
    # After pickling, it is still the file that the version names.
    data = pickle.dumps(shard)
    assert "a" in pickle.loads(data)


@needs_a_folder("changes files")
def test_a_pickled_shard_is_the_file_that_its_version_names() -> None:
    store = create()
    store.insert_many(["a", "b"])
    store.compact(all=True)
    number = int(store.shards_of(["a"])[0])
    data = pickle.dumps(store.shard(number))
    assert "a" in pickle.loads(data)
    file = store.files[number].path
    store.insert_many(["c", "d"] + keys(100))
    store.compact(all=True)
    shutil.copy(store.files[number].path, file)
    with pytest.raises(gowk.Damaged):
        "a" in pickle.loads(data)  # noqa: B015


@needs_a_folder("copies files out of the store and removes them")
def test_copies_of_files_are_read_in_their_place() -> None:
    store = create()
    store.insert_many(keys(1000))
    store.compact(all=True)
    Path("near").mkdir()
    for file in list(store.files.values())[:3]:
        shutil.copy(file.path, Path("near") / file.name)
        file.path.unlink()
    near = gowk.Store(place(), version=3, copies="near")
    assert near.contains_many(keys(1000)).all()
    shard = near.shard(0)
    assert shard is not None and shard.path == Path("near").absolute() / near.files[0].name
    assert "key 7" in pickle.loads(pickle.dumps(near))
    # Working copies are made of them, too.
    with near.update(scratch=".", rewriting=True) as update:
        assert update.insert_many(keys(990, 1010)).tolist() == [False] * 10 + [True] * 10
    with pytest.raises(gowk.Damaged) as missing:
        gowk.Store(place(), version=3).contains_many(keys(1000))
    assert missing.value.path == str(near.at(3).files[0].path)
    # If a copy is another file, or half of one, the store's own file is read. It is put back for that.
    copy, own = Path("near") / near.at(3).files[0].name, near.at(3).files[0].path
    shutil.copy(copy, own)
    for wrong in [(Path("near") / near.at(3).files[1].name).read_bytes(), b"half a copy"]:
        copy.write_bytes(wrong)
        again = gowk.Store(place(), version=3, copies="near")
        shard = again.shard(0)
        assert shard is not None and shard.path == own and again.contains_many(keys(1000)).all()
        assert again.take_refused_copies() == [copy.absolute()]


@needs_a_folder("changes files")
def test_files_that_are_not_those_of_the_version() -> None:
    store = create()
    store.insert_many(keys(1000))
    store.compact(all=True)
    store.insert_many(keys(1000, 2000))
    store.insert_many(keys(2000, 2500))
    names = [file.path for file in store.files.values()]
    names[0].unlink()
    names[1].write_bytes(names[2].read_bytes())
    with open(names[3], "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        file.write(b"\xff" * 8)
    runs = sorted(Path("s/runs").iterdir())[-2:]
    with open(runs[1], "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8)
    found = gowk.Store(place(), threads=2).verify(progress=lambda done, all: None)
    assert isinstance(found[0], gowk.Damaged) and isinstance(found[1], gowk.Damaged)
    assert isinstance(found[2], gowk.Report) and found[2].is_clean
    assert isinstance(found[3], gowk.Report) and not found[3].is_clean
    # Five pages, as 1000 keys are three of records; and a damaged one.
    assert list(found)[:4] == [0, 1, 2, 3] and set(list(found)[4:]) == {run.name for run in runs}
    whole, damaged = (found[run.name] for run in runs)
    assert isinstance(whole, gowk.Report) and (whole.is_clean, whole.pages) == (True, 5)
    assert isinstance(damaged, gowk.Damaged) and damaged.path == str(runs[1].absolute())
    Path("s/store.toml").write_text("format = 1\n# crc32 = 00000000\n")
    with pytest.raises(gowk.Damaged):
        gowk.Store(place())


def test_distinct_finds_equal_keys_and_leaves_nothing() -> None:
    store = create(shards=64, capacity=1_000_000)
    Path("scratch").mkdir()
    with store.distinct(20_000, folder="scratch") as distinct:
        # All of one shard, as a task has them.
        shard = [key for key, of in zip(keys(500_000), store.shards_of(keys(500_000)), strict=True) if of == 3]
        assert len(list(Path("scratch").iterdir())) == 1
        mask = distinct.insert_many(shard + shard)
        assert mask[: len(shard)].mean() > 0.9999 and not mask[len(shard) :].any()
        assert shard[0] in distinct and distinct.contains_many(shard).all() and "another" not in distinct
    assert list(Path("scratch").iterdir()) == []
    with pytest.raises(ValueError, match="closed"):
        distinct.insert_many(["a"])
    again = store.distinct(20_000)
    assert (again.insert_many(shard + shard) == mask).all()
    with pytest.raises(FileNotFoundError):
        store.distinct(10, folder="nowhere")


def test_batches_of_all_kinds() -> None:
    store = create()
    everything: list[Any] = [
        ["a", b"b"],
        pa.array(["c", None, "d"]),
        pa.chunked_array([["e"], ["f", None]]),
        pa.array(["g", "h", "g"]).dictionary_encode(),
        np.array(["i", "j"]),
        np.array([b"k"]),
        (key for key in ["l", "m"]),
        pa.table({"url": ["n"]}),
        [],
    ]
    expected = [[True] * 2, [True, False, True], [True, True, False], [True, True, False], [True] * 2, [True],
                [True] * 2, [True], []]
    with store.update() as update:
        for batch, new in zip(everything, expected, strict=True):
            assert update.insert_many(batch).tolist() == new
    assert store.contains_many(list("abcdefghijklmn")).all()
    nulls = pa.array(["a", None, "zzz"])
    assert store.contains_many(nulls).tolist() == [True, False, False]
    assert store.count_many(nulls).tolist() == [1, 0, 0]
    shards = store.shards_of(nulls).tolist()
    assert shards[1] == -1 and 0 <= shards[0] < 4 and shards[0] == store.shards_of(np.array([b"a"]))[0]
    for call in (store.contains_many, store.shards_of, store.insert_many):
        with pytest.raises(TypeError, match=r"keys\[1\] is int"):
            call(["a", 3])
        with pytest.raises(TypeError, match="keys is one str"):
            call("a")
    assert store.version == 2


def test_a_batch_that_ends_early_says_what_was_taken() -> None:
    store = create()
    update = store.update()
    with pytest.raises(TypeError) as caught:
        update.insert_many(["a", "b", 3, "d"])
    error: Any = caught.value
    assert error.taken == 2 and error.mask.tolist() == [True, True]
    assert error.__notes__ == ["gowk: keys[0:2] were taken; commit() keeps what was taken, and close() gives it up"]
    with pytest.raises(TypeError) as caught:
        store.insert_many(["a", "b", 3, "d"])
    assert caught.value.__notes__ == ["gowk: keys[0:2] were taken; nothing was committed"]
    assert update.commit().version == 2 and store.contains_many(["a", "b", "d"]).tolist() == [True, True, False]


def test_keys_without_room_are_told() -> None:
    store = create(shards=2, capacity=10, growth="never")
    update = store.update()
    with pytest.raises(gowk.NoRoom) as caught:
        update.update(keys(200_000))
    error: Any = caught.value
    assert error.refused > 0 and error.taken == 200_000 and 0 < error.index < 200_000
    update.close()
    with pytest.raises(gowk.NoRoom):
        store.insert_many(keys(200_000))
    assert store.version == 1


def test_random_updates_against_a_set() -> None:
    chance = random.Random(3)
    store, model = create(shards=5, threads=2), set[str]()
    for number in range(200 if THOROUGH else 30):
        batch = [f"key {chance.randrange(20_000)}" for _ in range(chance.randrange(2000))]
        form = chance.choice([list, pa.array, np.array, lambda batch: pa.chunked_array([batch[:5], batch[5:]], pa.string())])
        given = form(batch) if batch else []
        seen, expected = set(model), []
        for key in batch:
            expected.append(key not in seen)
            seen.add(key)
        new = store.insert_many(given, token=("random", number))
        assert new.tolist() == expected
        assert store.insert_many(given, token=("random", number)).tolist() == expected
        model = seen
        if chance.random() < 0.2:
            store.vacuum(keep=2, grace=0)
        looked_up = keys(20_000)
        assert store.contains_many(pa.array(looked_up)).tolist() == [key in model for key in looked_up]


def test_threads_share_a_store() -> None:
    store = create(shards=8, capacity=500_000)
    wrong: list[object] = []

    def work(number: int) -> None:
        for step in range(3):
            batch = [f"{number} {step} {index}" for index in range(3000)]
            while True:
                try:
                    store.insert_many(batch, token=(f"thread {number}", step))
                    break
                except gowk.Conflict:
                    pass
            if not store.contains_many(batch).all() or batch[0] not in store:
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    store.compact(all=True)
    assert not wrong and abs(store.info().entries - 36_000) < 10
    assert [version.operation for version in store.log()].count("insert") == 12


def test_other_threads_run_meanwhile() -> None:
    store = create(shards=2, capacity=3_000_000)
    batch = np.arange(1_500_000).astype("S")
    ended, steps = threading.Event(), 0

    def count() -> None:
        nonlocal steps
        while not ended.is_set():
            steps += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    # Only one call lies between the two readings: between calls the other thread would run anyway.
    before = steps
    store.insert_many(batch)
    during = steps - before
    ended.set()
    counter.join()
    assert during > 50, during


INTERRUPTED = """
import gowk, itertools, os, signal, sys, threading
store = gowk.Store(sys.argv[1])
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    with store.update() as update:
        update.update(b"%d" % number for number in itertools.count())
except KeyboardInterrupt as error:
    print(error.taken, store.version)
"""


def test_ctrl_c_ends_an_update() -> None:
    create()
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, place()], capture_output=True, text=True, check=False)
    taken, version = map(int, done.stdout.split())
    assert taken > 0 and version == 1 and working_copies(place()) == []


def test_a_token_below_the_last_one_is_an_error_and_the_same_one_is_seen() -> None:
    store = create()
    assert store.insert_many(["a"], token=("crawl", 118)).all()
    with pytest.raises(gowk.Invalid, match="`crawl` is 118, above 117.*take a number above 118"):
        store.insert_many(["old"], token=("crawl", 117))
    with pytest.raises(gowk.Invalid, match="above 117"), store.update(base=store, token=("crawl", 117)) as update:
        update.update(["old"])
    assert "old" not in gowk.Store(place()) and store.version == 2
    mask, commit = store.insert_many(["a"], token=("crawl", 118), return_commit=True)
    assert mask.tolist() == [True] and (commit.outcome, commit.version) == ("already", 2)
    mask, commit = store.insert_many(["a", "b"], token=("crawl", 119), return_commit=True)
    assert mask.tolist() == [False, True] and commit.outcome == "new"


@pytest.mark.parametrize("number", [50, 20_000])
def test_threads_that_insert_the_same_keys_are_all_committed(number: int) -> None:
    """Few keys become records; many rewrite their shards."""
    create(shards=2, capacity=1000, slots_per_bucket=2)
    rounds = 20 if number < 100 else 3

    def insert(thread: int) -> list[list[bool]]:
        store = gowk.Store(place())
        return [store.insert_many(keys((round + 1) * number)).tolist() for round in range(rounds)]

    with ThreadPoolExecutor(4) as pool:
        masks = list(pool.map(insert, range(4)))
    news = np.zeros(rounds * number, dtype=int)
    for mask in itertools.chain.from_iterable(masks):
        news[: len(mask)] += np.array(mask, dtype=int)
    # One commit has called each key new, but for false positives.
    assert news.max() == 1 and news.sum() >= 0.999 * len(news)
    assert gowk.Store(place()).contains_many(keys(rounds * number)).all()


def test_an_update_that_is_rebased_names_the_keys_that_are_not_new() -> None:
    store = create()
    update = store.update()
    assert update.insert_many(["a", "b"]).all()
    gowk.Store(place()).insert_many(["b", "c"])
    commit = update.commit(rebase=True)
    assert (commit.outcome, commit.rejudged) == ("new", 1)
    assert update.rejudged(["a", "b", "c"]).tolist() == [False, True, False]
    assert store.contains_many(["a", "b", "c"]).all()
