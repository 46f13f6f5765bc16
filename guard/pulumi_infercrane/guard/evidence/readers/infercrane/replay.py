"""`infercrane.replay/v1`: one line per recorded request that one side answered again."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_count, optional_number
from pulumi_infercrane.guard.evidence.records import Replay, Replayed
from pulumi_infercrane.guard.reasons import Inadmissible

MAX_LATENCY_S = 600.0

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEX64 = re.compile(r"[0-9a-f]{64}")


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Replay:
    """One side's answers.

    Raises:
        Inadmissible: with the line.
    """
    return Replay(
        requests={line["id"]: _replayed(line, f"line {line_number}") for line_number, line in lines},
        planned=count(header, "planned", "line 1"),
        workload_digest=_text(header, "workload_digest", _DIGEST, "line 1"),
        greedy=field(header, "greedy", bool, "line 1"),
        similarity=field(header, "similarity", str, "line 1") if "similarity" in header else "",
    )


def _replayed(line: Mapping[str, Any], where: str) -> Replayed:
    """What a failed request holds beside its outcome is half an answer, and left out."""
    outcome = field(line, "outcome", str, where)
    if outcome != "complete":
        return Replayed(ok=False, outcome=outcome)
    return Replayed(
        ok=True,
        outcome=outcome,
        finish_reason=field(line, "finish_reason", str, where) if "finish_reason" in line else "",
        out_tokens=optional_count(line, "out_tokens", where),
        ttft_s=_seconds(line, "ttft_s", where),
        e2e_s=_seconds(line, "e2e_s", where),
        structured=field(line, "structured", bool, where) if "structured" in line else None,
        tool_calls=_text(line, "tool_calls", _DIGEST, where) if "tool_calls" in line else "",
        refused=field(line, "refused", bool, where) if "refused" in line else None,
        text_sha256=_text(line, "text_sha256", _HEX64, where) if "text_sha256" in line else "",
        similarity=_similarity(line, where) if "similarity" in line else None,
    )


def _seconds(line: Mapping[str, Any], name: str, where: str) -> float | None:
    seconds = optional_number(line, name, where)
    if seconds is not None and not 0 < seconds <= MAX_LATENCY_S:
        raise bad(where, f"{name} {seconds:g} is not between 0 and {MAX_LATENCY_S:g} s")
    return seconds


def _similarity(line: Mapping[str, Any], where: str) -> float:
    similarity = number(line, "similarity", where)
    if not 0 <= similarity <= 1:
        raise bad(where, f"similarity {similarity:g} is not between 0 and 1")
    return similarity


def _text(mapping: Mapping[str, Any], name: str, form: re.Pattern[str], where: str) -> str:
    text = field(mapping, name, str, where)
    if not form.fullmatch(text):
        raise Inadmissible("bad_value", f"{where}: {name} is not of the form {form.pattern}")
    return text
