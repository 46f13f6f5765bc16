"""What the readers of scored tasks share: names that rules can carry, scores in 0..1, one run chosen out of several."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import bad
from pulumi_infercrane.guard.evidence.records import Answer
from pulumi_infercrane.guard.reasons import Inadmissible

_NOT_IN_A_RULE = re.compile(r"[^A-Za-z0-9_-]+")


def rule_name(text: str) -> str:
    """A task's or metric's name as `quality.<task>.<metric>` can carry it: `inspect_evals/gsm8k` is
    `inspect_evals-gsm8k`. The names as written belong into the tasks digest, which tells two such tasks apart."""
    return _NOT_IN_A_RULE.sub("-", text).strip("-") or "unnamed"


def require_kind(envelope: Envelope, tool: str, *kinds: str) -> None:
    """Raises:
    Inadmissible: `tool_unknown` when the envelope offers the file as another kind of evidence.
    """
    if envelope.kind not in kinds:
        known = " and ".join(kinds)
        raise Inadmissible(
            "tool_unknown", f"{tool} measures {known}, its file is no evidence of kind {envelope.kind!r}"
        )


def selection(envelope: Envelope, *known: str) -> Mapping[str, int | str]:
    """What the envelope selects out of the primary file.

    Raises:
        Inadmissible: `bad_value` for a key that this tool's files have no use for.
    """
    select = envelope.primary.select or {}
    for key in select:
        if key not in known:
            raise Inadmissible("bad_value", f"select.{key}: this tool's files are told apart by {', '.join(known)}")
    return select


def chosen(what: str, found: Collection[str], select: Mapping[str, int | str]) -> str:
    """The one of several names that `select` says, or the only one.

    Raises:
        Inadmissible: `ambiguous_run` when several are there and none is selected, `no_scores` when there is none,
            `bad_value` when the selected one is not there.
    """
    listed = ", ".join(sorted(found)[:8]) + (", …" if len(found) > 8 else "")
    if what in select:
        if str(select[what]) not in found:
            raise Inadmissible(
                "bad_value", f"select.{what}: {str(select[what])!r} is not in the file, which has {listed}"
            )
        return str(select[what])
    if not found:
        raise Inadmissible("no_scores", f"the file has no {what} with a score")
    if len(found) > 1:
        raise Inadmissible(
            "ambiguous_run", f"{len(found)} {what}s in one file ({listed}): say which with select.{what}"
        )
    return next(iter(found))


def share(value: Any, where: str) -> float:
    """A score in 0..1; truth values count as 1 and 0.

    Raises:
        Inadmissible: `bad_value` for anything else.
    """
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        shown = value if isinstance(value, int | float | str) else type(value).__name__
        raise bad(where, f"score {shown!r} is not a number from 0 to 1; other scales cannot be judged")
    return float(value)


def check_version(written: Any, envelope: Envelope, where: str) -> None:
    """Raises:
    Inadmissible: `binding_conflict` when the file names another version of its tool than the envelope.
    """
    declared = envelope.primary.tool_version
    if written is not None and written != declared:
        raise Inadmissible("binding_conflict", f"{where} says {written!r}, the envelope says {declared!r}")


def text_digest(value: Any) -> str:
    """64 hex digits of an answer: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def identity(value: Any) -> str:
    """`sha256:…` of what two sides must share, as JSON; unlike RFC 8785 it takes any text a tool may have written."""
    return "sha256:" + text_digest([value])


def averaged(passes: Iterable[Answer]) -> Answer:
    """Several passes over one item as one: the mean score, and every flaw that any of them had."""
    answers = list(passes)
    if len(answers) == 1:
        return answers[0]
    return Answer(
        score=sum(sorted(answer.score for answer in answers)) / len(answers),
        ok=all(answer.ok for answer in answers),
        empty=_any(answer.empty for answer in answers),
        cut=_any(answer.cut for answer in answers),
        text_sha256=text_digest([answer.text_sha256 for answer in answers]),
    )


def _any(flags: Iterable[bool | None]) -> bool | None:
    seen = set(flags)
    return True if True in seen else (None if None in seen else False)
