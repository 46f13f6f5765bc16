"""A canonical record as lines for people: what the guard reads from a file."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pulumi_infercrane.guard.evidence.records import Quality, Record, Requests


def lines(record: Record) -> Iterator[str]:
    """`name: value` for every figure the record has; what a file does not say is left out."""
    for field in fields(record):
        shown = _shown(getattr(record, field.name))
        if shown:
            yield f"{field.name}: {shown}"
    if isinstance(record, Quality) and record.answers:
        yield from _quality(record)


def _quality(record: Quality) -> Iterator[str]:
    answers = record.answers.values()
    yield f"mean score: {sum(answer.score for answer in answers) / len(answers):.4g}"
    yield f"failed or empty: {sum(not answer.ok or bool(answer.empty) for answer in answers)}"


def _shown(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, Requests):
        return f"{len(value)} kept one by one"
    if is_dataclass(value):
        inner = [(field.name, _shown(getattr(value, field.name))) for field in fields(value)]
        return ", ".join(f"{name} {shown}" for name, shown in inner if shown)
    return f"{value:.6g}" if isinstance(value, float) else _printable(str(value))


def _printable(text: str) -> str:
    """A file's words may not move the cursor of the terminal they are shown on."""
    return text if text.isprintable() else ascii(text)


def _mapping(value: Mapping[Any, Any]) -> str:
    if len(value) > 8:
        return f"{len(value)} kept one by one"
    return "; ".join(f"{_printable(str(key))} {_shown(one)}" for key, one in value.items())
