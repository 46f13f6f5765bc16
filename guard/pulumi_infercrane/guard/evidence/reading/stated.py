"""What a tool's file states about its own measurement, so that whoever wraps it need not say it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from pulumi_infercrane.guard.evidence.readers import Reader
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.times import format_time, parse_time

_Stating = Callable[[Mapping[str, bytes]], "Stated"]


@dataclass(frozen=True)
class Stated:
    """Empty or None where the file is silent. Times are RFC 3339 in UTC."""

    tool_version: str = ""
    started_at: str = ""
    ended_at: str = ""
    planned: int | None = None
    source: str = ""
    """Set for a file of another guard: whoever wraps it declares the revision."""


def stated_in(reader: Reader, parts: Mapping[str, bytes]) -> Stated:
    """What a reader with an optional `stated(parts)` finds; nothing for one without, or that cannot read them."""
    stating = cast("_Stating | None", getattr(reader, "stated", None))
    if stating is None:
        return Stated()
    try:
        return stating(parts)
    except Inadmissible:
        return Stated()


def from_epoch(seconds: Any) -> str:
    """Seconds since 1970 as RFC 3339; empty for anything that is no plausible time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 3e10:
        return ""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def from_iso(text: Any) -> str:
    """ISO 8601 with an offset as RFC 3339 in UTC; empty without one: a zone is never guessed."""
    if not isinstance(text, str):
        return ""
    try:
        time = datetime.fromisoformat(text)
        return format_time(parse_time(format_time(time))) if time.tzinfo else ""
    except (ValueError, OverflowError):
        return ""
