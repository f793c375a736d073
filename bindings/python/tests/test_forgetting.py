"""Filters and stores that forget.

Invariants checked: a key is new, and there, exactly as its time says, whatever object holds the times; late and early
keys are reported by their indices; a value that is not a time is refused by its index, and changes nothing; a wrong clock
is refused.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import gowk
import numpy as np
import pyarrow as pa
import pytest
from bucket import place

DAY = 86_400
FIRST = 20_000 * DAY
KEPT = timedelta(days=28)


def writer(path: str = "f", **options: Any) -> gowk.Writer:
    return gowk.Writer(path, forget_after=KEPT, slots_per_bucket=2, seed=1, **options)


def on(day: float) -> float:
    return FIRST + day * DAY


def test_a_key_is_new_again_once_it_is_forgotten() -> None:
    with writer() as seen:
        told = seen.insert_many_at(["a", "b", "a", "a", "c"], [on(0), on(1), on(20), on(31), on(2)])
        assert told.new.tolist() == [True, True, False, True, False]
        assert (told.late.tolist(), told.early.tolist()) == ([4], [])
        info = seen.info()
    assert info.kind == "forgetting"
    assert (info.forget_after, info.forget_within, info.refresh) == (KEPT, timedelta(days=2), False)
    assert info.time == datetime.fromtimestamp(on(30), timezone.utc)
    reader = gowk.Reader("f")
    assert ("a" in reader, "b" in reader, "c" in reader) == (True, False, False)
    # On day 31 the epoch of day 30 has come, and b's has just ended.
    told = [(expiry.at / 1000, expiry.entries) for expiry in reader.verify().expiries]
    assert told[-1] == (on(60), 1) and sum(entries for _, entries in told) == reader.info().entries
    assert all(at <= on(30) for at, _ in told[:-1])
    assert gowk.Reader("f").info().forget_after == KEPT


def test_with_refresh_the_time_counts_from_when_a_key_was_last_seen() -> None:
    with writer(refresh=True) as seen:
        told = seen.insert_many_at(["a", "a", "a"], [on(0), on(20), on(40)])
        assert told.new.tolist() == [True, False, False]
        assert seen.info().refresh


EXPECTED = [int(on(day)) for day in (0, 1.5, 3)]
AWARE = [datetime.fromtimestamp(time, timezone(timedelta(hours=2))) for time in EXPECTED]
TIMES = {
    "ints": EXPECTED,
    "floats": [float(time) for time in EXPECTED],
    "milliseconds": [1000 * time for time in EXPECTED],
    "datetimes": AWARE,
    "datetime64": [np.datetime64(time, "s") for time in EXPECTED],
    "numpy ints": np.array(EXPECTED),
    "numpy unsigned": np.array(EXPECTED, dtype=np.uint32),
    "numpy floats": np.array(EXPECTED, dtype=np.float64),
    "numpy milliseconds": np.array(EXPECTED) * 1000,
    "numpy seconds": np.array(EXPECTED, dtype="datetime64[s]"),
    "numpy nanoseconds": np.array(EXPECTED, dtype="datetime64[s]").astype("datetime64[ns]"),
    "arrow": pa.array(EXPECTED, pa.timestamp("s")),
    "arrow zone": pa.array(AWARE, pa.timestamp("us", "Europe/Berlin")),
    "arrow chunks": pa.chunked_array([pa.array(EXPECTED[:1], pa.int64()), pa.array(EXPECTED[1:], pa.int64())]),
    "iterator": iter(EXPECTED),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_taken_from_what_holds_them(name: str) -> None:
    with writer() as seen:
        seen.insert_many_at(["a", "b", "c"], TIMES[name])
        assert seen.info().time == datetime.fromtimestamp(on(2), timezone.utc)
        # An hour before the first key's last epoch begins, and after it.
        told = seen.insert_many_at(["x", "a"], [on(30) - 3600, on(30)])
        assert told.new.tolist() == [True, True]


def test_a_column_of_pandas_is_taken_with_and_without_a_zone() -> None:
    pandas = pytest.importorskip("pandas")
    for number, zone in enumerate([None, "Europe/Berlin"]):
        column = pandas.Series(pandas.to_datetime(EXPECTED, unit="s", utc=True))
        column = column.dt.tz_convert(zone) if zone else column.dt.tz_localize(None)
        with writer(f"p{number}") as seen:
            seen.insert_many_at(pandas.Series(["a", "b", "c"]), column)
            assert seen.info().time == datetime.fromtimestamp(on(2), timezone.utc)


@pytest.mark.parametrize(
    ("times", "error", "words"),
    [
        ([on(0)], ValueError, "2 keys, but 1 times"),
        ([on(0), None], TypeError, r"times\[1\] is NoneType"),
        ([on(0), "2026-05-03"], TypeError, r"times\[1\] is str"),
        ([on(0), True], TypeError, r"times\[1\] is bool"),
        ([on(0), float("nan")], ValueError, r"times\[1\] is nan"),
        ([on(0), datetime(2026, 5, 3)], TypeError, r"times\[1\] is a datetime without a time zone"),
        (np.array([1.0, np.inf]), ValueError, r"times\[1\] is inf"),
        (np.array(["2026-05-03", "NaT"], dtype="datetime64[s]"), ValueError, r"times\[1\] is missing"),
        (pa.array([1, None], pa.timestamp("s")), ValueError, r"times\[1\] is missing"),
        (np.array([0, 400_000_000], dtype="datetime64[Y]"), ValueError, r"times\[1\] is .* out of range"),
        (np.array([[1], [2]]), TypeError, "2 dimensions"),
        (5, TypeError, "times is one int"),
    ],
)
def test_what_is_no_time_is_refused_and_changes_nothing(times: Any, error: type[Exception], words: str) -> None:
    with writer() as seen:
        with pytest.raises(error, match=words):
            seen.insert_many_at(["a", "b"], times)
        assert seen.info().entries == 0


def test_nulls_are_skipped_and_indices_are_those_of_the_caller() -> None:
    future = datetime.now(timezone.utc) + timedelta(days=400)
    with writer() as seen:
        keys = pa.array([None, "a", None, "b", "late", "early"])
        times = [on(40)] * 4 + [on(1), future.timestamp()]
        told = seen.insert_many_at(keys, times)
        assert told.new.tolist() == [False, True, False, True, False, False]
        assert (told.late.tolist(), told.early.tolist()) == ([4], [5])


def test_a_clock_that_is_wrong_is_refused() -> None:
    with writer() as seen:
        seen.insert_many_at(["a"], [on(0)])
        with pytest.raises(gowk.WrongClock, match="clock"):
            seen.insert("b")
        with pytest.raises(gowk.WrongClock):
            seen.sweep()
    with gowk.Writer("f", clock_is_right=True) as seen:
        assert seen.sweep() == 1
        assert "a" not in seen
        assert seen.insert("a")


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="forget_within is given without forget_after"):
        gowk.Writer("g", forget_within=5)
    with pytest.raises(ValueError, match="refresh is given without forget_after"):
        gowk.Writer("g", refresh=True)
    with pytest.raises(ValueError, match="one kind"):
        gowk.Writer("g", forget_after=5, counting=True)
    with pytest.raises(ValueError, match="forget_after is -1"):
        gowk.Writer("g", forget_after=-1.0)
    with writer():
        pass
    with pytest.raises(gowk.Invalid, match="forgets keys"):
        gowk.Writer("f", forget_after=timedelta(days=7))
    with pytest.raises(gowk.WrongKind, match="counting=True"):
        gowk.Writer("f", clock_is_right=True).remove("a")
    with gowk.Writer("set") as seen:
        for wrong in (lambda: seen.insert_many_at(["a"], [on(0)]), seen.sweep):
            with pytest.raises(gowk.WrongKind, match="forget_after"):
                wrong()


def test_the_newest_keys_are_kept() -> None:
    with gowk.Writer("f", keep_newest=700, slots_per_bucket=2, seed=1) as seen:
        assert seen.insert_many(str(key) for key in range(10_000)).all()
        assert seen.info().keep_newest == (700, 750)
        assert all(str(key) in seen for key in range(9_300, 10_000))
        assert not any(str(key) in seen for key in range(9_250))
        with pytest.raises(gowk.Invalid, match="keeps the newest keys, and a time of a key"):
            seen.insert_many_at(["a"], [on(0)])
    info = gowk.Reader("f").info()
    assert (info.kind, info.forget_after, info.time, info.generation) == ("forgetting", None, None, 0)
    for options in ({"capacity": 5}, {"forget_after": 5}, {"counting": True}, {"refresh": True, "forget_after": 5}):
        with pytest.raises(gowk.Invalid):
            gowk.Writer("g", keep_newest=700, **options)
    with pytest.raises(gowk.Invalid, match="keeps the newest 700 to 750 keys"):
        gowk.Writer("f", keep_newest=701)


def test_a_store_forgets_as_a_filter_does(folder: Path) -> None:
    store = gowk.Store.create(place(), shards=3, forget_after=KEPT, slots_per_bucket=2)
    assert store.info().time is None
    with store.update() as update:
        told = update.insert_many_at(["a", "b", "a"], [on(0), on(1), on(20)])
        assert told.new.tolist() == [True, True, False]
    assert store.info().forget_within == timedelta(days=2)
    before = gowk.Store(place())
    with store.update(token=("app", 1)) as update:
        told = update.insert_many_at(["a", "old"], [on(31), on(1)])
        assert (told.new.tolist(), told.late.tolist()) == ([True, False], [1])
    assert store.info().time == datetime.fromtimestamp(on(30), timezone.utc)
    assert store.contains_many(["a", "b", "old"]).tolist() == [True, False, False]
    assert before.contains_many(["a", "b", "old"]).tolist() == [True, True, False]
    # A retry gets the same answers.
    with store.update(token=("app", 1)) as update:
        assert update.insert_many_at(["a", "old"], [on(31), on(1)]).new.tolist() == [True, False]
    assert update.committed is not None and update.committed.outcome == "already"
    with pytest.raises(gowk.WrongClock):
        store.insert_many(["c"])
    # By the clock, which is far ahead of that time.
    with pytest.raises(gowk.WrongClock):
        store.update_time()
    assert store.before("app", 1).update_time() == datetime.fromtimestamp(on(30), timezone.utc)
    assert store.contains_many(["a"], at=on(58)).tolist() == [True]
    assert store.contains_many(["a"], at=on(60)).tolist() == [False]
    assert store.contains_many(["a"], at=datetime.fromtimestamp(on(0), timezone.utc)).tolist() == [True]
    assert gowk.Store.create(place("set"), shards=2).update_time() is None
    filter = gowk.Writer("f", forget_after=KEPT)
    filter.insert_many_at(["k"], [on(3)])
    filter.commit()
    filter.close()
    divided = gowk.Store.create(place("divided"), shards=2, filter=gowk.Reader("f"))
    assert "k" in divided and divided.info().time == gowk.Reader("f").info().time


def test_keys_with_lifetimes_are_kept_until_the_later_of_their_expiries() -> None:
    with writer() as seen:
        keys = pa.array(["a", "b", "a", None])
        new = seen.insert_many_for(keys, [3600, timedelta(days=1), 5, 1])
        assert new.tolist() == [True, True, False, False]
        assert not seen.insert_for("a", timedelta(days=20))
        assert seen.insert_for(b"c", 1.5)
        for lifetimes in (
            np.array([1, 2], dtype="timedelta64[D]"),
            np.array([1.5, 2]),
            pa.array([timedelta(hours=1), timedelta(hours=2)]),
            (seconds for seconds in (1, 2)),
            timedelta(days=1),
            60,
        ):
            assert seen.insert_many_for(["x", "y"], lifetimes).shape == (2,)
        # Each is kept for the longest lifetime that it came with, to within what the filter promises.
        seen.commit()
        living = sorted(
            ((datetime.fromtimestamp(expiry.at / 1000, timezone.utc) - datetime.now(timezone.utc)).days, expiry.entries)
            for expiry in gowk.Reader("f").verify().expiries
        )
        assert sum(entries for _, entries in living) == 5
        assert 19 <= living[-1][0] <= 22 and living[-1][1] == 1


@pytest.mark.parametrize(
    ("lifetimes", "error", "words"),
    [
        ([1], ValueError, "2 keys, but 1 lifetimes"),
        ([1, -1], ValueError, r"lifetimes\[1\] is -1.0 seconds"),
        ([1, float("nan")], ValueError, r"lifetimes\[1\] is nan"),
        (np.array([1, "NaT"], dtype="timedelta64[s]"), ValueError, r"lifetimes\[1\] is nan"),
        ([1, "2"], TypeError, r"lifetimes\[1\] is str"),
        ("12", TypeError, "lifetimes is str"),
        ([1, timedelta(days=29)], ValueError, "lifetime"),
    ],
)
def test_what_is_no_lifetime_is_refused_and_changes_nothing(lifetimes: Any, error: type[Exception], words: str) -> None:
    with writer() as seen:
        with pytest.raises(error, match=words):
            seen.insert_many_for(["a", "b"], lifetimes)
        assert "a" not in seen and "b" not in seen
    with gowk.Writer("set") as plain, pytest.raises(gowk.WrongKind):
        plain.insert_for("a", 1)
