"""`infercrane.decision/v1`: the record a decision leaves."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Closed, Count, Digest, Open, UtcTime, document

Percent = Annotated[int, Field(ge=0, le=100)]
Number = float | Literal["inf", "-inf"]
"""JSON has no infinity: the quantile of a side that mostly failed is a word."""


class RuleRecord(Open):
    """What judging one rule found."""

    rule: str
    class_: Annotated[Literal["H", "S"], Field(alias="class")]
    outcome: Literal["pass", "fail", "unknown", "waived", "not_applicable"]
    reasons: list[str]
    required: bool | None = None
    detail: str | None = None
    needs: str | None = None
    method: str | None = None
    n: list[Count] | None = None
    estimate: Number | None = None
    lo: Number | None = None
    hi: Number | None = None
    limit: Number | None = None
    min_pass: Count | None = None
    min_compute: Count | None = None
    notes: list[str] | None = None
    evidence: list[Digest] | None = None


class SupersedesRecord(Closed):
    """A piece that this one replaces, and why."""

    evidence_id: Digest
    reason: str


class EvidenceRecord(Open):
    """One envelope that was found, used or not."""

    used: bool
    sha256: Digest
    reasons: list[str]
    evidence_id: Digest | None = None
    kind: str | None = None
    role: Literal["candidate", "baseline"] | None = None
    revision: Digest | None = None
    ended_at: UtcTime | None = None
    files: list[str] | None = None
    supersedes: list[SupersedesRecord] | None = None
    exit_code: int | None = None
    """What the tool ended with, where the envelope says so."""


class WaiverRecord(Closed):
    """A waiver of the policy, and whether it applied."""

    rule: str
    reason: str
    owner: str
    expires_at: UtcTime
    state: Literal["applies", "hard_rule", "other_revision", "expired"]


class WindowRecord(Closed):
    """One traffic window that was given, used or not."""

    sha256: Digest
    used: bool
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    file: str | None = None
    """Name of a file that could not be read or is not vouched for."""
    signers: list[Digest] | None = None
    reasons: list[str] | None = None


class StepRecord(Closed):
    """The canary step that was judged; weights in percent."""

    weight: Percent
    started_at: UtcTime
    steps: list[Percent]


class LookRecord(Closed):
    """One of several looks at growing traffic: the k-th of its sort is judged at alpha/k."""

    stage: Literal["early", "judgement"]
    number: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(gt=0, lt=1)]


class DecisionRecord(Open):
    """Equal byte for byte, in RFC 8785 form, wherever it is computed again from the same inputs."""

    schema_: Annotated[Literal["infercrane.decision/v1"], Field(alias="schema")]
    guard_version: str
    decision_id: Digest
    decision_type: Literal[
        "promotion", "bootstrap", "canary_step", "post_promotion", "rollback", "override", "unguarded"
    ]
    verdict: Literal["promote", "reject", "insufficient_evidence"]
    action: Literal["flip", "keep", "advance", "hold", "rollback"]
    service: str
    stack: str
    as_of: UtcTime
    candidate: Digest
    policy_digest: Digest
    rules: list[RuleRecord]
    evidence: list[EvidenceRecord]
    reasons: list[str]
    first_reason: str
    expires_at: UtcTime | None = None
    baseline: Digest | None = None
    expected_active: Digest | None = None
    evidence_digest: Digest | None = None
    prev_decision_id: Digest | None = None
    history: list[Digest] | None = None
    change: list[str] | None = None
    change_classes: list[str] | None = None
    required_kinds: list[str] | None = None
    waivers: list[WaiverRecord] | None = None
    notes: list[str] | None = None
    notices: list[str] | None = None
    windows: list[WindowRecord] | None = None
    windows_digest: Digest | None = None
    look: LookRecord | None = None
    step: StepRecord | None = None
    expected_weights: dict[str, Percent] | None = None
    """Percent by revision that the route must carry when `weights` are given to it."""
    weights: dict[str, Percent] | None = None
    promoted: Digest | None = None
    """The decision that let the watched revision take over."""
    started_at: UtcTime | None = None
    state: Literal["open", "proven", "accepted_unproven", "failed"] | None = None
    frozen: list[Digest] | None = None
    """Windows the frozen baseline is read from."""
    rollback_to: Digest | None = None
    retain: Digest | None = None
    """The revision that must stay warm."""


def schema() -> dict[str, Any]:
    """Of the record, which may grow."""
    return document(DecisionRecord, "infercrane.decision/v1")
