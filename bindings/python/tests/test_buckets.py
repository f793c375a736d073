"""Invariants checked, of stores in a bucket of a server of the S3 protocol:

1. A store answers as one in a folder does, for batches and single keys, after updates, folds, vacuums and pickling.
2. Both sides of a fork, and threads, use a store that was open before; so do processes that are started anew.
3. The requests of a store object and of a job are counted, as the command counts them.
4. The address stays text. What is meant as an address and is none is refused, and makes no folder. No error shows a
   credential.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from pathlib import Path
from uuid import uuid4

import pytest
from bucket import served

import gowk


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, served(tmp_path_factory.mktemp("cache")) as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def address() -> str:
    return f"{os.environ['GOWK_TEST_BUCKET']}/{uuid4().hex}"


def create(shards: int = 4, counting: bool = False) -> gowk.Store:
    return gowk.Store.create(address(), shards=shards, capacity=10_000, slots_per_bucket=2, seed=7, counting=counting)


def keys(*numbers: int) -> list[str]:
    return [f"key {number}" for number in range(*numbers)]


def in_a_child(check: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def found_in(path: str, first: int, end: int) -> bool:
    """In another process."""
    return bool(gowk.Store(path).contains_many(keys(first, end)).all())


def test_plain_use_as_in_a_folder() -> None:
    store = create()
    assert isinstance(store.path, str) and store.path.startswith("s3://") and store.version == 1 and store.shards == 4
    assert gowk.Store.is_at(store.path) and repr(store) == f"gowk.Store('{store.path}', version=1)"
    local = gowk.Store.create("s", shards=4, capacity=10_000, slots_per_bucket=2, seed=7)
    for part in range(6):
        batch = keys(100 * part, 100 * part + 150)
        assert store.insert_many(batch, token=("crawl", part)).tolist() == local.insert_many(batch, token=("crawl", part)).tolist()
    again = store.insert_many(keys(500, 650), token=("crawl", 5))
    assert again.tolist() == [False] * 50 + [True] * 100 and store.tokens["crawl"].number == 5
    asked = keys(0, 30_000, 7)
    assert store.contains_many(asked).tolist() == local.contains_many(asked).tolist()
    with store.update(rewriting=True) as update:
        assert update.insert_many(keys(600, 700)).tolist() == [False] * 50 + [True] * 50
    store.compact(all=True)
    assert store.info().pending == 0 and "key 7" in store and "key 700" not in store
    for shard, file in store.files.items():
        assert file.path == f"{store.path}/shards/{shard:04}/{file.name}"
    report = store.vacuum(keep=1, grace=0)
    assert report.versions > 6 and report.files > 0
    opened = gowk.Store(store.path)
    assert opened.contains_many(keys(700)).all() and not opened.contains_many(keys(800, 900)).any()
    opened.join_to("joined")
    assert gowk.Reader("joined").contains_many(keys(700)).all()


def test_requests_are_counted() -> None:
    store = create()
    before = store.requests
    store.insert_many(keys(1000))
    after = store.requests
    assert before is not None and after is not None
    assert (after.put - before.put, after.post, after.delete, after.failed) == (2, 0, before.delete, 0)
    # Six, and a check for a newer version.
    assert after.get + after.head + after.list - before.get - before.head - before.list <= 7
    again = gowk.Store(store.path)
    assert again.at(1).version == 1 and again.contains_many(keys(1000)).all()
    told = again.requests
    assert told is not None and (told.put, told.post, told.delete) == (0, 0, 0) and told.get > 0
    assert gowk.Store.create("local", shards=2).requests is None


def test_a_counting_store_counts() -> None:
    store = create(counting=True)
    store.insert_many(["a", "b", "a"])
    assert gowk.Store(store.path).count_many(["a", "b", "c"]).tolist() == [2, 1, 0]
    with store.update() as update:
        update.remove_many(["a"])
    assert gowk.Store(store.path).count("a") == 1


def test_stores_travel_and_are_used_on_both_sides_of_a_fork() -> None:
    store = create()
    store.insert_many(keys(500))
    copy = pickle.loads(pickle.dumps(store))
    assert copy.path == store.path and copy.contains_many(keys(500)).all()

    def in_child() -> None:
        assert store.contains_many(keys(500)).all()
        assert store.insert_many(keys(500, 600)).all()
        assert "key 599" in gowk.Store(store.path)

    threads = [threading.Thread(target=lambda: store.contains_many(keys(500))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        in_a_child(lambda: None)
    in_a_child(in_child)
    for thread in threads:
        thread.join()
    assert store.reload() and store.contains_many(keys(600)).all()
    assert store.insert_many(keys(600, 700)).all()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(found_in, [store.path] * 4, [0, 200, 400, 600], [200, 400, 600, 700])) == [True] * 4


def test_sealed_files_travel_to_whoever_commits_them() -> None:
    store = create()
    update = store.update()
    update.insert_many(keys(100))
    sealed = [gowk.Sealed.from_json(piece.to_json()) for piece in update.seal()]
    gowk.Store(store.path).commit(sealed, base=store, token=("crawl", 1))
    assert store.reload() and store.contains_many(keys(100)).all()


def test_a_job_fills_a_store() -> None:
    path = address()
    gowk.Store.create(path, shards=2, capacity=10_000)
    Path("urls.txt").write_text("".join(f"{key}\n" for key in keys(200)) * 2)
    Path("job.toml").write_text(f'[filter]\npath = "{path}"\n[input]\npaths = ["urls.txt"]\n[output]\nnew_keys = "new"\n')
    job = gowk.Job("job.toml")
    assert job.filter == path
    first, again = job.run(), job.run()
    assert first.run.new == 200 and again.run.keys == 0
    # The version that claims the output, and the run of the keys with its own version; the second run commits nothing.
    told, later = first.requests, again.requests
    assert told is not None and told.put == 3 and told.get > 0 and told.list > 0 and told.failed == 0
    assert later is not None and later.put == 0 and later.get > 0
    # The command tells the same.
    Path("urls.txt").write_text("".join(f"{key}\n" for key in keys(200)) * 2 + "one more\n")
    done = subprocess.run([sys.executable, "-m", "gowk", "ingest", "--json", "job.toml"], capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout.splitlines()[-1])["requests"]
    assert counts["put"] == 2 and Path("new").read_text().splitlines() == [*keys(200), "one more"]
    assert set(counts) == {field.name for field in fields(gowk.Requests)}
    assert gowk.Store(path).contains_many(keys(200)).all()
    assert not Path("s3:").exists()


def test_what_is_no_address_is_refused_and_no_error_shows_a_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in [Path("s3://gowk-test/x"), "s3a://gowk-test/x", "s3://", "s3://gowk-test/a//b", "s3://key:secret@b/x"]:
        for call in [gowk.Store, lambda path: gowk.Store.create(path, shards=2)]:
            with pytest.raises(gowk.Invalid) as refused:
                call(wrong)
            assert str(refused.value).startswith(str(wrong))
    with pytest.raises(gowk.Invalid, match="s3://bucket/prefix.*gs://bucket/prefix.*az://container/prefix"):
        gowk.Store("abfs://container/x")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "gowktest")
    for path, variable in [("gs://b/x", "GOOGLE_BASE_URL"), ("az://c/x", "AZURE_STORAGE_ENDPOINT")]:
        monkeypatch.setenv(variable, "no address")
        with pytest.raises(gowk.Error, match=f"{path}: .*the endpoint in the environment is no URL"):
            gowk.Store(path)
    assert os.listdir() == []
    with pytest.raises(gowk.Foreign, match="not a store"):
        gowk.Store(address())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    path = address()
    with pytest.raises(gowk.Error) as unreached:
        gowk.Store(path)
    told = f"{unreached.value!r} {unreached.value}"
    assert path in told and "cannot be reached" in told and "gowk-test-key" not in told and "gowk-test-secret" not in told
