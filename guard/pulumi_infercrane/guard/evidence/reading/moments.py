"""Times that tools write into their files, held against the envelope's window."""

from datetime import UTC, datetime, timedelta, timezone

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.times import parse_time

TOLERATED_CLOCK = timedelta(seconds=60)


def check_window(envelope: Envelope, started: datetime, ended: datetime) -> None:
    """What was measured lies in the envelope's window; else an old file could pass as a fresh one.

    Raises:
        Inadmissible: `inconsistent`.
    """
    window = envelope.window
    if window.started - TOLERATED_CLOCK <= started <= ended <= window.ended + TOLERATED_CLOCK:
        return
    text = f"the file is about {started:%Y-%m-%dT%H:%M:%SZ} to {ended:%Y-%m-%dT%H:%M:%SZ}"
    raise Inadmissible("inconsistent", f"{text}, its envelope about {window.started_at} to {window.ended_at}")


def check_times(envelope: Envelope, *times: str) -> None:
    """As `check_window`, for RFC 3339 times of which a file may hold some or none; an empty one says nothing.

    Raises:
        Inadmissible: `inconsistent`.
    """
    known = [parse_time(time) for time in times if time]
    if known:
        check_window(envelope, min(known), max(known))


def check_zoneless(envelope: Envelope, time: datetime) -> None:
    """A local time that names no zone, somewhere on Earth, lies in the envelope's window.

    Raises:
        Inadmissible: `inconsistent`.
    """
    window, far = envelope.window, timedelta(hours=14)
    earliest, latest = (time.replace(tzinfo=timezone(offset)) for offset in (far, -far))
    if earliest <= window.ended + TOLERATED_CLOCK and latest >= window.started - TOLERATED_CLOCK:
        return
    text = f"the file is of {time:%Y-%m-%dT%H:%M:%S} in some time zone"
    raise Inadmissible("inconsistent", f"{text}, its envelope about {window.started_at} to {window.ended_at}")


def from_epoch(seconds: float, where: str) -> datetime:
    """The time so many seconds after 1970.

    Raises:
        Inadmissible: `bad_value` beyond the calendar.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise bad(where, f"{seconds:g} is not a time in seconds since 1970") from error


def from_text(text: str, where: str) -> datetime:
    """An ISO 8601 time with its zone.

    Raises:
        Inadmissible: `bad_value`; `clock` without a zone.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad(where, f"{text[:40]!r} is not a time") from error
    if time.tzinfo is None:
        raise Inadmissible("clock", f"{where}: {text} names no zone")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise bad(where, f"{text} is beyond the calendar") from error
