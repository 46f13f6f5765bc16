"""`infercrane.quality/v1`: one line per scored item of a task file."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.reading.fields import bad, field, number
from pulumi_infercrane.guard.evidence.records import Answer, Quality
from pulumi_infercrane.guard.reasons import Inadmissible

_HEX64 = re.compile(r"[0-9a-f]{64}")


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Quality:
    """The pass of one file.

    Raises:
        Inadmissible: with the line.
    """
    answers = {line["id"]: _answer(line, f"line {line_number}") for line_number, line in lines}
    if not answers:
        raise Inadmissible("no_scores", "not one item was scored")
    return Quality(
        task=field(header, "task", str, "line 1"),
        metric=field(header, "metric", str, "line 1"),
        tasks_digest=field(header, "tasks_digest", str, "line 1"),
        answers=answers,
    )


def _answer(line: Mapping[str, Any], where: str) -> Answer:
    ok = field(line, "outcome", str, where) == "complete"
    score = number(line, "score", where)
    if not 0 <= score <= 1:
        raise bad(where, f"score {score} is not between 0 and 1")
    if not ok and score:
        raise Inadmissible("inconsistent", f"{where}: a failed request cannot score")
    text = line.get("text_sha256", "")
    if ok and not (isinstance(text, str) and _HEX64.fullmatch(text)):
        raise bad(where, "text_sha256 is not 64 hex digits")
    empty = "empty" in line and field(line, "empty", bool, where)
    return Answer(score=score, ok=ok, empty=empty, cut=line.get("finish_reason") == "length", text_sha256=text)
