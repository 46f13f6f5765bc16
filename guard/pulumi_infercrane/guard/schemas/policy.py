"""`infercrane.policy/v1`: the policy file, for editors; `load_policy` says more, with the line."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from pulumi_infercrane.guard.schemas._words import Closed, Digest, UtcTime, document

Duration = Annotated[str, StringConstraints(pattern=r"^\d{1,6}[dhms]$")]
Kinds = Annotated[list[str], Field(min_length=1)]
Required = Kinds | Literal["by_change"]
Minimum = Annotated[int, Field(ge=1)]


class PolicyRule(Closed):
    """One rule; a default stands for what is left out."""

    id: str
    class_: Annotated[Literal["H", "S"] | None, Field(alias="class")] = None
    limit: Annotated[float, Field(ge=0, le=1e9)] | None = None
    margin: Annotated[float, Field(ge=0, le=4)] | None = None
    min_pass: Minimum | None = None
    min_compute: Minimum | None = None


class PolicySlo(Closed):
    """Objectives of one request, in seconds."""

    ttft_s: Annotated[float, Field(gt=0, le=600)] | None = None
    tpot_s: Annotated[float, Field(gt=0, le=600)] | None = None
    e2e_s: Annotated[float, Field(gt=0, le=600)] | None = None


class PolicyWaiver(Closed):
    """A reviewed exception: one soft rule or one required kind, one revision, for a time."""

    rule: str
    reason: str
    owner: str
    expires_at: UtcTime
    revision_digest: Digest


class PolicyByChange(Closed):
    """Kinds that a class of change needs beside the default ones."""

    model: list[str] | None = None
    runtime: list[str] | None = None
    accelerator: list[str] | None = None
    scale: list[str] | None = None


class TrustedKey(Closed):
    """A key, what it may attest, and when."""

    id: Digest
    public_key: str
    kinds: Kinds
    not_before: UtcTime
    not_after: UtcTime
    revoked_at: UtcTime | None = None
    count_before_revocation: bool | None = None


class PolicyTrust(Closed):
    """Whose word counts."""

    require_signatures: bool | None = None
    keys: list[TrustedKey]


class PolicyCanary(Closed):
    """Steps in which a candidate gets traffic."""

    steps: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=2)] | None = None
    """Percent, rising to 100."""
    min_step: Duration | None = None
    max_step: Duration | None = None
    on_timeout: Literal["hold", "step_back"] | None = None


class PolicyBootstrap(Closed):
    """What even a first revision needs evidence of."""

    required_kinds: list[str]


class PolicyPostPromotion(Closed):
    """The watch over a revision that took over."""

    window: Duration | None = None
    max_window: Duration | None = None
    auto_rollback: bool | None = None
    retain_previous: bool | None = None
    relative_latency: Literal["notice", "rollback"] | None = None


class PolicyFile(Closed):
    """Which kinds of evidence a stack requires, and the rules they must pass."""

    schema_: Annotated[Literal["infercrane.policy/v1"], Field(alias="schema")]
    required_kinds: Required | dict[str, Required]
    rules: Annotated[list[PolicyRule], Field(min_length=1)]
    service: str | None = None
    alpha: Annotated[float, Field(ge=0.0001, le=0.2)] | None = None
    max_looks: Annotated[int, Field(ge=1, le=100)] | None = None
    bootstrap: bool | PolicyBootstrap | None = None
    by_change: PolicyByChange | None = None
    min_duration_s: Annotated[float, Field(ge=0, le=86400)] | None = None
    min_soak_s: Annotated[float, Field(ge=0, le=30 * 86400)] | None = None
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] | None = None
    slo: PolicySlo | None = None
    max_age: dict[str, Duration] | None = None
    waivers: list[PolicyWaiver] | None = None
    trust: PolicyTrust | None = None
    canary: PolicyCanary | None = None
    post_promotion: PolicyPostPromotion | None = None


def schema() -> dict[str, Any]:
    """Of the file, whatever its spelling in YAML."""
    return document(PolicyFile, "infercrane.policy/v1")
