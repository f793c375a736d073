"""Invariants checked:

1. A key is the same in every process, whatever seed Python hashes with.
2. A reader answers in the processes of fork and spawn pools, and on both sides of a fork. A writer belongs to the process
   that opened it, and a child that ends does it no harm.
3. Two threads look up side by side, and share a writer. Ctrl-C ends an update between chunks, and says what was taken.
4. An update from an iterable takes constant memory, and nothing takes memory for a length that is claimed.
5. The interpreter exits whatever daemon threads do at that moment.
6. NumPy is imported with gowk: where it is missing, or Ctrl-C ends its import, that is told by the import.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import THOROUGH

import gowk


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_a_child(check: Any) -> None:
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


def test_keys_do_not_depend_on_the_seed_of_pythons_hash() -> None:
    python("import gowk\nwith gowk.Writer('f') as w: w.update(f'k{i}' for i in range(1000))", PYTHONHASHSEED="1")
    found = python(
        "import gowk\nr = gowk.Reader('f')\n"
        "print(sum(f'k{i}' in r for i in range(1000)), r.contains_many(f'k{i}' for i in range(2000)).sum())",
        PYTHONHASHSEED="2",
    )
    single, many = map(int, found.split())
    assert single == 1000 and 1000 <= many <= 1010


def look_up(reader: gowk.Reader, keys: list[str]) -> tuple[int, list[bool]]:
    return os.getpid(), [key in reader for key in keys] + reader.contains_many(keys).tolist()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_reader_travels_to_a_pool(method: str, in_memory: bool) -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
    reader = gowk.Reader("f", in_memory=in_memory, threads=2)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        answers = list(pool.map(look_up, [reader] * 8, [["a", "b"]] * 8))
    assert all(found == [True, False, True, False] for _, found in answers)
    assert os.getpid() not in {process for process, _ in answers}


def test_a_reader_is_pickled_by_path_and_opened_when_used() -> None:
    import pickle

    gowk.Writer("f", capacity=100).commit()
    data = pickle.dumps(gowk.Reader("f"))
    os.unlink("f")
    reader = pickle.loads(data)
    with pytest.raises(gowk.NotFound):
        "a" in reader  # noqa: B015
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
    assert "a" in reader


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_reader_answers_on_both_sides_of_a_fork() -> None:
    with gowk.Writer("f", capacity=100) as writer:
        writer.add("a")
    reader = gowk.Reader("f")

    def check() -> None:
        assert look_up(reader, ["a", "b"])[1] == [True, False, True, False]
        in_a_child(lambda: look_up(reader, ["a"])[1] == [True, True] or 1 / 0)

    assert "a" in reader
    in_a_child(check)
    # Both processes see commits made after the fork.
    with gowk.Writer("f") as writer:
        writer.add("b")
    assert "b" in reader

    def check_again() -> None:
        assert "b" in reader

    in_a_child(check_again)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_writer_belongs_to_the_process_that_opened_it() -> None:
    writer = gowk.Writer("f", capacity=100)
    writer.add("a")
    writer.commit()
    writer.add("b")

    def check() -> None:
        nonlocal writer
        for call in (lambda: writer.add("c"), lambda: writer.commit(), lambda: "a" in writer, lambda: writer.close()):
            with pytest.raises(RuntimeError, match="belongs to the other process"):
                call()
        with pytest.raises(gowk.Locked):
            gowk.Writer("f")
        del writer

    in_a_child(check)
    with pytest.raises(gowk.Locked):
        gowk.Writer("f")
    # A reader in another process finds that a writer has the filter, and does not recover it.
    python("import gowk; assert 'a' in gowk.Reader('f') and 'b' not in gowk.Reader('f')")
    writer.commit()
    python("import gowk; assert 'b' in gowk.Reader('f')")
    writer.close()


def test_threads_share_a_writer() -> None:
    with gowk.Writer("f", capacity=1_000_000, slots_per_bucket=2, seed=1) as writer:

        def work(number: int) -> None:
            writer.update(f"{number} {index}" for index in range(50_000))
            for index in range(2000):
                assert writer.insert(f"single {number} {index}")
            writer.commit()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(writer) == 4 * 52_000
    reader = gowk.Reader("f")
    assert reader.contains_many(f"{number} {index}" for number in range(4) for index in range(50_000)).all()


def test_other_threads_run_while_a_batch_is_looked_up() -> None:
    with gowk.Writer("f", capacity=3_000_000) as writer:
        keys = np.arange(2_000_000).astype("S")
        inside = threading.Event()
        steps: list[float] = []

        def count() -> None:
            while not inside.is_set():
                steps.append(time.monotonic())
                time.sleep(0)

        counter = threading.Thread(target=count)
        counter.start()
        before = len(steps)
        start = time.monotonic()
        writer.update(keys)
        end = time.monotonic()
        inside.set()
        counter.join()
    # If the batch kept the GIL, there would be at most one step for each chunk.
    during = [step for step in steps[before:] if start < step < end]
    assert len(during) > 50, len(during)


INTERRUPTED = """
import gowk, itertools, os, signal, threading, time
writer = gowk.Writer("f", capacity=20_000_000)
given = 0
def keys():
    global given
    for given in itertools.count(1):
        yield b"%d" % given
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    writer.update(keys())
except KeyboardInterrupt as error:
    print(error.taken, given, len(writer), writer.contains_many(b"%d" % i for i in range(1, error.taken + 1)).all())
    print(error.__notes__[0])
    writer.commit()
    writer.close()
"""


def test_ctrl_c_ends_an_update_and_says_what_was_taken() -> None:
    numbers, note = python(INTERRUPTED).splitlines()
    taken, given, stored, all_there = numbers.split()
    assert 0 < int(taken) <= int(given) and all_there == "True"
    # About a thousandth of them are false positives.
    assert 0.99 * int(taken) < int(stored) <= int(taken)
    assert note.startswith(f"gowk: keys[0:{taken}] were taken; commit() keeps")
    assert len(gowk.Reader("f")) == int(stored)


ARROW_INTERRUPTED = """
import gowk, os, pyarrow as pa, signal, threading
array = pa.array([str(i) for i in range(100_000)])
writer = gowk.Writer("f")
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    writer.update(pa.chunked_array([array] * 5000))
except KeyboardInterrupt as error:
    print(error.taken, len(writer))
"""


def test_ctrl_c_ends_an_arrow_stream_between_chunks() -> None:
    taken, stored = map(int, python(ARROW_INTERRUPTED).split())
    assert 0 < taken < 500_000_000 and taken % 100_000 == 0 and 99_000 < stored <= 100_000


MEMORY = """
import gowk, resource, sys
def memory(field):
    return int(next(l for l in open("/proc/self/status") if l.startswith(field)).split()[1]) / 1024
number = int(sys.argv[1])
writer = gowk.Writer("f", capacity=number)
writer.update(["warm"])
before = memory("RssAnon")
peak = 0
def keys():
    global peak
    for i in range(number):
        if i % 100_000 == 0:
            peak = max(peak, memory("RssAnon"))
        yield "https://example.org/page/%d" % i
writer.update(keys())
peak = max(peak, memory("RssAnon"))
print(round(peak), round(peak - before), writer.info().file_length >> 20)
"""


def test_an_update_from_a_generator_takes_constant_memory() -> None:
    number = 50_000_000 if THOROUGH else 5_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(number)], capture_output=True, text=True, check=True
    )
    peak, more, map_ = map(int, done.stdout.split())
    print(f"{number} keys: peak {peak} MiB of own memory, {more} MiB more than before; the map {map_} MiB")
    assert more < 100
    assert Path("f").exists() is False, "nothing was committed"


def test_a_killed_writer_leaves_its_last_commit() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import gowk, itertools\nw = gowk.Writer('f', capacity=1000, seed=1)\n"
         "for i in itertools.count():\n  w.add(str(i)); w.commit(); print(i, flush=True)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line == "300\n":
            child.send_signal(signal.SIGKILL)
            break
    last = int((child.stdout.read().split() or ["300"])[-1])
    child.wait()
    reader = gowk.Reader("f")
    assert reader.contains_many(map(str, range(last + 1))).all()
    assert last + 1 <= reader.info().commit <= last + 2


EXITS = """
import gowk, sys, threading, time
reader = gowk.Reader("f")
keys = [str(number) for number in range(10_000)]

def keys_for_ever():
    while True:
        yield "a"

def tell(done, all):
    for _ in range(100):
        pass

def batches():
    while True:
        reader.contains_many(keys)

def generators():
    reader.contains_many(keys_for_ever())

def errors():
    while True:
        try:
            gowk.Reader("missing")
        except gowk.NotFound:
            pass

def progress():
    while True:
        reader.verify(tell)

def descriptions():
    while True:
        reader.info()

for _ in range(4):
    threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
time.sleep(0.02)
print("end")
"""


@pytest.mark.parametrize("calls", ["batches", "generators", "errors", "progress", "descriptions"])
def test_the_interpreter_exits_while_daemon_threads_are_in_calls(calls: str) -> None:
    with gowk.Writer("f", capacity=100_000) as writer:
        writer.update(map(str, range(20_000)))
    for _ in range(100 if THOROUGH else 10):
        done = subprocess.run([sys.executable, "-c", EXITS, calls], capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_functions_of_atexit_may_wait_for_daemon_threads() -> None:
    # Registered before gowk is imported, so that it is called after gowk's own.
    code = """if True:
        import atexit, threading
        done = threading.Event()
        atexit.register(lambda: (done.set(), worker.join(), print(len(writer))))
        import gowk
        writer = gowk.Writer("f")

        def keys():
            yield "a"
            done.wait()
            yield "b"

        worker = threading.Thread(target=lambda: writer.update(keys()), daemon=True)
        worker.start()
    """
    assert python(code) == "2\n"


LENGTHS = """
import gowk, resource
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
with gowk.Writer("f", capacity=100) as writer:
    writer.add("a")
reader = gowk.Reader("f")
class Many:
    def __len__(self): return 10**15
    def __getitem__(self, index): return 3
for many in (range(10**12), Many()):
    for call in (lambda: gowk.join(many, "o"), lambda: reader.divide_to(many), lambda: reader.contains_many(many)):
        try:
            call()
        except TypeError as error:
            print(error)
"""


def test_no_memory_is_taken_for_a_length_that_is_claimed() -> None:
    lines = python(LENGTHS).splitlines()
    assert len(lines) == 6 and all("[0]" in line and "int" in line for line in lines), lines


def test_nulls_without_end_are_a_memory_error() -> None:
    code = """if True:
        import gowk, pyarrow, resource
        with gowk.Writer("f", capacity=100) as writer:
            writer.add("a")
        nulls = pyarrow.chunked_array([pyarrow.nulls(1 << 20)] * 1000)
        limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (1 << 29)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            gowk.Reader("f").count_many(nulls)
        except MemoryError as error:
            print(error)
    """
    assert python(code).startswith("no memory for the answers of ")


def test_without_numpy_the_import_says_so() -> None:
    code = "import sys; sys.modules['numpy'] = None\ntry: import gowk\nexcept ImportError as error: print(error)"
    assert "numpy" in python(code)


def test_ctrl_c_while_numpy_is_imported_is_told_and_leaves_nothing_behind() -> None:
    code = """if True:
        import importlib.abc, os, signal, sys

        class Interrupts(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "numpy":
                    sys.meta_path.remove(self)
                    os.kill(os.getpid(), signal.SIGINT)

        sys.meta_path.insert(0, Interrupts())
        try:
            import gowk
            gowk.Writer("f").insert_many(["a"])
        except BaseException as error:
            print(type(error).__name__)
        import gowk
        with gowk.Writer("f") as writer:
            print(writer.contains_many(["a", "b"]).tolist())
    """
    assert python(code) == "KeyboardInterrupt\n[False, False]\n"
