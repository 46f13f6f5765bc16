"""Whether two load runs had the same workload. Differences of the *subjects* are the declared change."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pulumi_infercrane.guard.evidence.readers import major_minor
from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.reasons import Problem

TOLERANCE = 0.02
TOLERATED_CACHE_SHARE = 0.05

_SAME = ("id", "dataset_digest", "load_model", "streaming", "path", "replicas", "cache", "random_seed")
_CLOSE = ("rate", "concurrency")


def version_problem(members: Sequence[Member]) -> Problem | None:
    """`version_mismatch` unless every member was measured by one tool in one major.minor version."""
    tools = sorted({_tool(member) for member in members})
    return Problem("version_mismatch", f"measured with {' and '.join(tools)}") if len(tools) > 1 else None


def load_problem(sides: Sides) -> Problem | None:
    """Why the load runs of two sides cannot be compared; None when they can."""
    return (
        version_problem(sides.all)
        or scenario_problem(sides.all)
        or _record_problem(sides.all)
        or _lengths_problem(sides)
        or _cache_problem(sides)
    )


def _tool(member: Member) -> str:
    primary = member.envelope.primary
    return f"{primary.tool} {major_minor(primary.tool_version)}"


def scenario_problem(members: Sequence[Member]) -> Problem | None:
    """`not_comparable` unless every envelope declares the same workload at the same operating point."""
    scenarios = [member.envelope.scenario for member in members]
    for name in _SAME:
        values = [getattr(scenario, name) for scenario in scenarios]
        if any(value != values[0] for value in values):
            return _differs(f"scenario.{name}", values)
    for name in _CLOSE:
        values = [getattr(scenario, name) for scenario in scenarios]
        if not _close(values):
            return _differs(f"scenario.{name}", values)
    return None


def _record_problem(members: Sequence[Member]) -> Problem | None:
    for name in ("load_model", "streaming", "token_source"):
        values = [getattr(member.record, name) for member in members]
        if any(value != values[0] for value in values):
            return _differs(name, values)
    for name in _CLOSE:
        values = [getattr(member.record, name) for member in members]
        if not _close(values):
            return _differs(name, values)
    return None


def _lengths_problem(sides: Sides) -> Problem | None:
    out_tokens = [_mean_tokens(side, "out_tokens") for side in (sides.baseline, sides.candidate)]
    if not _close(out_tokens):
        return _differs("mean output length in tokens", out_tokens)
    if len(_tokenizers(sides.all)) > 1:
        return None  # the same text is another number of tokens: the data set digest says that it is the same text
    in_tokens = [_mean_tokens(side, "in_tokens") for side in (sides.baseline, sides.candidate)]
    return None if _close(in_tokens) else _differs("mean input length in tokens", in_tokens)


def _cache_problem(sides: Sides) -> Problem | None:
    shares = [share for member in sides.all if (share := _cache_share(member)) is not None]
    cold = any(member.envelope.scenario.cache == "cold" for member in sides.all)
    if not shares or round(max(shares) - (0.0 if cold else min(shares)), 9) <= TOLERATED_CACHE_SHARE:
        return None
    return Problem("cache_bias", f"prefix cache hit shares from {min(shares):.2f} to {max(shares):.2f}")


def _cache_share(member: Member) -> float | None:
    probes = member.envelope.probes
    if probes is None or probes.before.prefix_cache is None or probes.after.prefix_cache is None:
        return None
    queries = probes.after.prefix_cache.queries - probes.before.prefix_cache.queries
    hits = probes.after.prefix_cache.hits - probes.before.prefix_cache.hits
    return hits / queries if queries > 0 else None


def _tokenizers(members: Iterable[Member]) -> set[str]:
    return {member.envelope.subject.tokenizer_digest for member in members}


def _mean_tokens(members: Sequence[Member], name: str) -> float | None:
    """Mean over the successful requests of all runs, each run weighing as much as it has of them."""
    known = [(mean, _succeeded(member)) for member in members if (mean := getattr(member.record, name)) is not None]
    total = sum(weight for _, weight in known)
    return math.fsum(mean * weight for mean, weight in known) / total if total else None


def _succeeded(member: Member) -> int:
    return max(1, (member.record.attempted or 0) - (member.record.failed or 0))


def _close(values: Sequence[float | None]) -> bool:
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return not numbers
    return max(numbers) <= min(numbers) * (1 + TOLERANCE)


def _differs(what: str, values: Sequence[Any]) -> Problem:
    shown = sorted({_shown(value) for value in values})
    return Problem("not_comparable", f"{what} differs: {' against '.join(shown)}")


def _shown(value: Any) -> str:
    if value is None:
        return "not stated"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
