"""The wall clock, by which deadlines and windows are told to others; everything else goes by a monotonic one."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, with its zone."""
    return datetime.now(UTC)
