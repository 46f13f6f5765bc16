"""Reason codes: stable words for why a rule came out as it did, in the order in which their gates run.

The earliest gate that failed is what a person reads first.
"""

from dataclasses import dataclass

from pulumi_infercrane.guard.errors import GuardError

GATES: dict[str, tuple[str, ...]] = {
    "parse": ("not_json", "duplicate_key", "non_finite", "oversize", "bomb", "ambiguous_run"),
    "integrity": ("tampered", "signature_invalid", "untrusted_key", "unsigned"),
    "schema": ("schema_unknown", "tool_unknown", "version_unknown", "version_mismatch"),
    "values": ("bad_value", "unit_suspect", "counters_disagree", "inconsistent"),
    "binding": ("binding_missing", "binding_mismatch", "binding_conflict", "subject_changed"),
    "freshness": ("stale", "stale_baseline", "clock"),
    "completeness": (
        "truncated",
        "no_evidence",
        "no_traffic",
        "evidence_withdrawn",
        "cost_incomplete",
        "no_scores",
        "degenerate",
    ),
    "comparability": (
        "not_comparable",
        "client_saturated",
        "cache_bias",
        "percentile_of_percentiles",
        "baseline_broken",
    ),
    "sufficiency": ("insufficient_n", "summary_only", "conflict"),
    "judge": (
        "within_margin",
        "limit_exceeded",
        "margin_exceeded",
        "hard_event",
        "interval_straddles",
        "fail_unconfirmed",
    ),
    "aggregate": (
        "waived",
        "waiver_invalid",
        "not_applicable",
        "bootstrap",
        "superseded",
        "duplicate",
        "expired",
        "active_changed",
        "plan_changed",
        "override",
    ),
}

_RANK = {code: rank for rank, codes in enumerate(GATES.values()) for code in codes}


def gate_rank(code: str) -> int:
    """Position of the gate a code belongs to. An unknown code raises KeyError: a misspelt word must never pass."""
    return _RANK[code]


@dataclass(frozen=True)
class Problem:
    """Why something does not count: a reason code and the figures or names behind it."""

    code: str
    detail: str

    def __post_init__(self) -> None:
        gate_rank(self.code)

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class Inadmissible(GuardError):
    """Raised while one piece of evidence is read; caught where that piece is loaded, and kept as its problem."""

    code = "inadmissible"

    def __init__(self, code: str, detail: str) -> None:
        text = detail.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair has no canonical form
        super().__init__(f"{code}: {text}")
        self.problem = Problem(code, text)
