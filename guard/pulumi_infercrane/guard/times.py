"""Times and durations as the guard's files write them: RFC 3339 in UTC with `Z`, and `7d`, `24h`, `30m`, `90s`."""

import re
from datetime import UTC, datetime, timedelta

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YEARS = range(1970, 3000)
"""Nothing was measured in others, and at their far end a time and an age would leave the calendar."""

_DURATION = re.compile(r"(\d{1,6})([dhms])")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_time(text: str) -> datetime:
    """An aware UTC time.

    Raises:
        ValueError: for anything but `2026-11-30T05:00:00Z`, with or without a fraction, from 1970 to 2999; a zone is
            never guessed.
    """
    if not _TIME.fullmatch(text) or int(text[:4]) not in _YEARS:
        raise ValueError(f"{text!r} is not a UTC time like 2026-11-30T05:00:00Z")
    return datetime.fromisoformat(text)


def parse_date(text: str) -> datetime:
    """The first moment of a day in UTC.

    Raises:
        ValueError: for anything but `2026-11-30`, from 1970 to 2999.
    """
    if not _DATE.fullmatch(text) or int(text[:4]) not in _YEARS:
        raise ValueError(f"{text!r} is not a date like 2026-11-30")
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC, to the second; a fraction is cut off."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_duration(text: str) -> timedelta:
    """A duration like `7d`.

    Raises:
        ValueError: for any other form.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration like 7d, 24h, 30m or 90s")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def format_duration(duration: timedelta) -> str:
    """The largest whole unit: `7d`, `36h`, `90s`."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit, size in _SECONDS.items() if seconds % size == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"
