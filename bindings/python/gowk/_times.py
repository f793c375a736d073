"""Times that callers give, as milliseconds since 1970, and lifetimes, as milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np

# Numbers below it are seconds, and others milliseconds, as for the tool: the year 5138, or March 1973.
_SECONDS_BELOW = 10**11


def _numbers(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        index = int(np.flatnonzero(~np.isfinite(given))[0])
        raise ValueError(f"times[{index}] is {given[index]}, which is no time")
    seconds = given < _SECONDS_BELOW
    if given.dtype.kind == "f":
        return np.floor(np.where(seconds, given * 1000.0, given)).astype(np.int64)
    # As whole numbers, which cannot overflow: only small ones are multiplied.
    return np.where(seconds, np.where(seconds, given, 0).astype(np.int64) * 1000, given.astype(np.int64))


def _one(index: int, time: Any) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise TypeError(
                f"times[{index}] is a datetime without a time zone; give it one, as in time.replace(tzinfo=timezone.utc)"
            )
        return int(time.timestamp() * 1000 // 1)
    if isinstance(time, np.datetime64):
        return int(_instants(np.array([time]), index)[0])
    if isinstance(time, bool) or not isinstance(time, int | float | np.integer | np.floating):
        raise TypeError(f"times[{index}] is {type(time).__name__}, but a time is a datetime, a datetime64 or a number")
    if not np.isfinite(time):
        raise ValueError(f"times[{index}] is {time}, which is no time")
    return int(time * 1000 // 1) if time < _SECONDS_BELOW else int(time)


def _instants(given: np.ndarray[Any, Any], first: int = 0) -> np.ndarray[Any, Any]:
    missing = np.flatnonzero(np.isnat(given))
    if missing.size:
        raise ValueError(f"times[{first + int(missing[0])}] is missing; give each key a time")
    found = given.astype("datetime64[ms]")
    if np.datetime_data(given.dtype)[0] in ("Y", "M", "W", "D", "h", "m", "s"):
        # NumPy's own conversion wraps around.
        wrong = np.flatnonzero(found.astype(given.dtype) != given)
        if wrong.size:
            raise ValueError(f"times[{first + int(wrong[0])}] is {given[wrong[0]]}, which is out of range")
    return found.astype(np.int64)


def _of_arrow(times: Any) -> Any:
    """Arrow data as a NumPy array; what is missing becomes NaT or NaN."""
    import pyarrow as pa

    given = times if isinstance(times, pa.Array | pa.ChunkedArray) else pa.chunked_array(times)
    if pa.types.is_timestamp(given.type):
        # NumPy's have no time zone, and stand for UTC.
        given = given.cast(pa.timestamp(given.type.unit))
    return given.to_numpy() if isinstance(given, pa.ChunkedArray) else given.to_numpy(zero_copy_only=False)


def milliseconds(times: Any) -> bytes:
    """The times as whole numbers of 64 bits, one after the other."""
    if isinstance(times, str | bytes | datetime | int | float):
        raise TypeError(f"times is one {type(times).__name__}; give one time for each key, as in [time]")
    if not isinstance(times, np.ndarray):
        if hasattr(times, "dt") and hasattr(times, "to_numpy"):
            # A column of pandas, whose times may have a zone.
            times = times.to_numpy(dtype="datetime64[ns]") if "datetime" in str(times.dtype) else times.to_numpy()
        elif hasattr(times, "to_numpy") and hasattr(times, "dtype") and not hasattr(times, "__arrow_c_stream__"):
            times = times.to_numpy()
        elif hasattr(times, "__arrow_c_stream__") or hasattr(times, "__arrow_c_array__"):
            times = _of_arrow(times)
    if isinstance(times, np.ndarray) and times.ndim != 1:
        raise TypeError(f"times is an array of {times.ndim} dimensions; give one of 1")
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        found = _instants(times)
    elif isinstance(times, np.ndarray) and times.dtype.kind in "iuf":
        found = _numbers(times)
    else:
        found = np.array([_one(index, time) for index, time in enumerate(times)], dtype=np.int64)
    return found.astype("<i8").tobytes()


# More than the lifetimes of any filter, and whole numbers of 64 bits hold it.
_LONGEST = 2**62


def _lifetime(index: int, lifetime: Any) -> float:
    if isinstance(lifetime, timedelta):
        return lifetime / timedelta(milliseconds=1)
    if isinstance(lifetime, bool) or not isinstance(lifetime, int | float | np.integer | np.floating):
        raise TypeError(f"lifetimes[{index}] is {type(lifetime).__name__}, but a lifetime is a timedelta or seconds")
    return float(lifetime) * 1000.0


def lifetimes(given: Any, keys: int) -> bytes:
    """One lifetime for each of so many keys, as whole numbers of 64 bits, one after the other."""
    if isinstance(given, int | float | timedelta | np.timedelta64):
        given = [given] * keys
    if isinstance(given, str | bytes):
        raise TypeError(f"lifetimes is {type(given).__name__}, but a lifetime is a timedelta or seconds")
    if not isinstance(given, np.ndarray):
        if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
            given = _of_arrow(given)
        elif hasattr(given, "to_numpy"):
            given = given.to_numpy()
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise TypeError(f"lifetimes is an array of {given.ndim} dimensions; give one of 1")
    if isinstance(given, np.ndarray) and given.dtype.kind == "m":
        # What is missing becomes NaN.
        found = given / np.timedelta64(1, "ms")
    elif isinstance(given, np.ndarray) and given.dtype.kind in "iuf":
        found = given.astype(np.float64) * 1000.0
    else:
        found = np.array([_lifetime(index, lifetime) for index, lifetime in enumerate(given)], dtype=np.float64)
    wrong = np.flatnonzero(~((found >= 0) & (found < _LONGEST)))
    if wrong.size:
        raise ValueError(f"lifetimes[{int(wrong[0])}] is {found[wrong[0]] / 1000.0} seconds; give at least 0")
    return np.ceil(found).astype("<u8").tobytes()
