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
        "not_applicable",
        "bootstrap",
        "superseded",
        "duplicate",
        "expired",
        "active_changed",
        "override",
    ),
}

_WAYS_OUT = {
    **dict.fromkeys(GATES["parse"], "a file of one run, as the tool writes it"),
    "tampered": "the file as it was measured, or a new measurement",
    "signature_invalid": "the envelope as it was signed, or a new measurement",
    "untrusted_key": "a signature by a key that the policy trusts with this kind",
    "unsigned": "a signature by a key that the policy trusts with this kind",
    **dict.fromkeys(GATES["schema"], "a file of a tool and version that the guard reads"),
    "version_mismatch": "both sides measured with one version of one tool",
    **dict.fromkeys(GATES["values"], "a new measurement: figures of this one cannot be true together"),
    "counters_disagree": "a measurement that says how many requests were sent and how many failed",
    **dict.fromkeys(GATES["binding"], "a measurement of exactly this revision"),
    "subject_changed": "a measurement during which the server neither restarts nor changes",
    **dict.fromkeys(GATES["freshness"], "a new measurement"),
    "truncated": "a run that is not cut short",
    "no_evidence": "a measurement that holds it",
    "no_traffic": "a window with traffic",
    "evidence_withdrawn": "that evidence again, or its successor with the reason",
    "cost_incomplete": "cost, currency and the date of the prices",
    "no_scores": "a run that was scored",
    "degenerate": "a task that tells these revisions apart",
    "not_comparable": "both sides measured with the same workload at the same operating point",
    "client_saturated": "a client that keeps up, or a lower rate",
    "cache_bias": "both sides measured with the same state of the cache",
    "percentile_of_percentiles": "every request, or one run on each side",
    "baseline_broken": "a baseline that works: measure it again",
}

_RANK = {code: rank for rank, codes in enumerate(GATES.values()) for code in codes}


def gate_rank(code: str) -> int:
    """Position of the gate a code belongs to. An unknown code raises KeyError: a misspelt word must never pass."""
    return _RANK[code]


def way_out(code: str) -> str:
    """What would settle an unknown with this reason, where nothing more exact is known; empty for other reasons."""
    return _WAYS_OUT.get(code, "")


@dataclass(frozen=True)
class Problem:
    """Why something does not count: a reason code and the figures or names behind it."""

    code: str
    detail: str
    needs: str = ""
    """What would settle it, where that is more exact than `way_out`."""

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
