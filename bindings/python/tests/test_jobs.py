"""Invariants checked: a job reads each key once, over runs, stops and exceptions; its progress is told; its errors say
what is wrong and how much is committed. The tool that comes with the package is the tool.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bucket import IN_BUCKETS, place

import gowk

JOB = """
[filter]
path = "f"
capacity = 1_000_000
[input]
paths = ["*.txt"]
[commit]
every_keys = 10_000
every_seconds = 0
[output]
new_keys = "new"
"""


@pytest.fixture
def job(folder: Path) -> gowk.Job:
    for part in range(4):
        lines = "".join(f"{part} {index}\n" for index in range(100_000))
        Path(f"{part}.txt").write_text(lines)
    Path("job.toml").write_text(JOB)
    return gowk.Job("job.toml")


def is_whole() -> bool:
    new = Path("new").read_text().split("\n")[:-1]
    return len(new) == len(set(new)) and 399_000 <= len(new) == len(gowk.Reader("f"))


def test_a_job_runs_once(job: gowk.Job) -> None:
    assert (job.name, job.path, job.filter, job.output) == ("job", Path("job.toml"), Path("f"), Path("new"))
    plan = job.plan()
    assert [planned.state for planned in plan.inputs] == ["new"] * 4 and not plan.filter_exists
    events: list[Any] = []
    summary = job.run(progress=events.append, threads=2)
    assert summary.finished and summary.run.read == summary.run.keys == 400_000 == summary.total.keys
    assert summary.run.new + summary.run.seen == 400_000 and len(summary.inputs) == 4
    # Closing the filter empties its journal.
    assert replace(summary.filter, journal_length=0) == gowk.Reader("f").info()
    commits = [event for event in events if isinstance(event, gowk.Committed)]
    assert commits[-1].keys == 400_000 and commits[-1].number <= gowk.Reader("f").info().commit
    progress = [event for event in events if isinstance(event, gowk.Progress)]
    assert progress[-1].bytes == progress[-1].of_bytes == sum(f.stat().st_size for f in Path().glob("*.txt"))
    assert is_whole()
    again = job.run()
    assert again.run.keys == 0 and again.finished_before == 4 and again.total == summary.total


def test_a_job_names_the_kind_and_the_rules_of_its_filter(folder: Path) -> None:
    Path("0.txt").write_text("spam\n Spam\neggs\n")
    text = JOB.replace("[input]", 'kind = "counting"\n[input]\ntrim = true\nignore_case = "ascii"')
    Path("job.toml").write_text(text)
    summary = gowk.Job("job.toml").run()
    assert (summary.run.keys, summary.run.new) == (3, 2)
    reader = gowk.Reader("f")
    assert (reader.info().kind, reader.info().key_rules) == ("counting", "trim ignore-case=ascii")
    assert reader.count_many(["spam", "eggs", "Spam"]).tolist() == [2, 1, 0]
    with gowk.Writer("s") as writer:
        writer.add("spam")
    Path("job.toml").write_text(text.replace('path = "f"', 'path = "s"').replace('"new"', '"other"'))
    with pytest.raises(gowk.WrongKind, match="with `counting=True`"):
        gowk.Job("job.toml").run()


def test_a_job_that_was_stopped_goes_on(job: gowk.Job) -> None:
    stops = 0
    for limit in (50_000, 120_000):

        def stop(event: gowk.Progress | gowk.Committed, limit: int = limit) -> bool:
            return not (isinstance(event, gowk.Committed) and event.keys >= limit)

        stops += not job.run(progress=stop).finished

    def fail(event: object) -> None:
        if isinstance(event, gowk.Committed):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job.run(progress=fail)
    assert stops == 2 and job.run().finished
    assert is_whole()


def test_ctrl_c_commits_and_ends_a_job(job: gowk.Job) -> None:
    code = (
        "import gowk\n"
        "def told(event):\n"
        "    if isinstance(event, gowk.Committed): print(event.keys, flush=True)\n"
        "try: gowk.Job('job.toml').run(progress=told)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    # So many commits that the job does not end first.
    Path("job.toml").write_text(JOB.replace("10_000", "1_000"))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    assert child.stdout.read().split()[-1] == "interrupted" and child.wait() == 0
    assert not job.run().run.keys == 400_000
    assert is_whole()


def test_a_job_into_a_store(job: gowk.Job) -> None:
    store = gowk.Store.create(place(), shards=4, capacity=1_000_000, slots_per_bucket=2, seed=1)
    Path("job.toml").write_text(JOB.replace('"f"\ncapacity = 1_000_000', f'"{place()}"'))
    job = gowk.Job("job.toml")
    summary = job.run()
    assert summary.run.new == 400_000 and summary.finished and summary.filter.entries == 400_000
    assert store.reload() and store.contains_many(f"3 {index}" for index in range(100_000)).all()
    assert "ingest/job" in store.tokens and summary.filter.commit == store.version
    assert job.run().run.keys == 0 and (summary.requests is None) == (not IN_BUCKETS)


def test_errors_of_jobs(job: gowk.Job) -> None:
    with pytest.raises(gowk.JobSystem) as missing:
        gowk.Job("nothing.toml")
    assert isinstance(missing.value, FileNotFoundError | OSError) and missing.value.errno == 2
    Path("bad.toml").write_text("[filter]\npaht = 'f'\n")
    with pytest.raises(gowk.JobError, match="did you mean"):
        gowk.Job("bad.toml")
    with pytest.raises(gowk.JobError, match="remembers no job") as forgotten:
        job.run()
        job.forget("another")
    assert not isinstance(forgotten.value, OSError)
    job.forget()
    os.unlink("new")
    assert job.run().run.seen == 400_000
    Path("0.txt").write_text("other\n")
    with pytest.raises(gowk.JobInput, match="restart") as changed:
        job.run()
    assert changed.value.path.endswith("0.txt")
    assert job.run(restart=["0.txt"]).run.keys == 1


def test_an_error_after_commits_says_how_much_is_committed(job: gowk.Job) -> None:
    Path("9.txt").write_bytes(b"\x1f\x8b\x08" + bytes(7) + b"broken")
    with pytest.raises(gowk.JobInput, match="1 of 5 inputs could not be read") as caught:
        job.run()
    assert caught.value.committed == 400_000


def test_other_threads_run_beside_a_job(job: gowk.Job) -> None:
    # So many commits that a busy machine runs this thread meanwhile, too.
    Path("job.toml").write_text(JOB.replace("10_000", "1_000"))
    job = gowk.Job("job.toml")
    done = threading.Event()
    thread = threading.Thread(target=lambda: (job.run(), done.set()))
    thread.start()
    steps = 0
    while not done.wait(0.001):
        steps += 1
    thread.join()
    assert steps > 5


@pytest.mark.parametrize("tool", [["gowk"], [sys.executable, "-m", "gowk"]], ids=["gowk", "python -m gowk"])
def test_the_tool(tool: list[str], folder: Path) -> None:
    if tool == ["gowk"]:
        tool = [str(Path(sys.executable).with_name("gowk"))]

    def run(*arguments: str, keys: str | None = None) -> tuple[int, str, str]:
        done = subprocess.run([*tool, *arguments], input=keys, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run("dedup", "seen", keys="a\nb\na\n") == (0, "a\nb\n", "")
    assert run("check", "seen", "b") == (0, "b\n", "")
    assert run("check", "seen", "c")[0] == 1
    status, _, message = run("check", "nothing", "c")
    assert status == 2 and "no such filter" in message
    assert "a" in gowk.Reader("seen")
    assert run("--version") == (0, f"gowk {gowk.__version__}\n", "")
    status, _, message = run("--wrong")
    assert status == 2 and "Usage: gowk" in message


def test_the_tool_ends_by_ctrl_c_as_it_does_alone(folder: Path) -> None:
    with gowk.Writer("seen", capacity=100) as writer:
        writer.commit()
        # The job waits for the filter.
        code = [sys.executable, "-m", "gowk", "insert", "seen", "--wait=60s", "a"]
        child = subprocess.Popen(code, stderr=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == -signal.SIGINT
