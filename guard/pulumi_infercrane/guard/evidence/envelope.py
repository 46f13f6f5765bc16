"""The evidence envelope (`infercrane.evidence/v1`): who measured what, when, and the files it vouches for.

Types are strict and unknown fields are refused. A field that is not used is left out; null is never written.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from pulumi_infercrane.guard.canonical import canonical_bytes, joined
from pulumi_infercrane.guard.errors import CanonicalError
from pulumi_infercrane.guard.evidence.identity import NOT_SEALED, sealed_bytes
from pulumi_infercrane.guard.findings import findings
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.times import parse_time
from pulumi_infercrane.guard.trust.attestation import Attestation

SCHEMA = "infercrane.evidence/v1"

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _utc_time(text: str) -> str:
    parse_time(text)
    return text


UtcTime = Annotated[str, AfterValidator(_utc_time)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class EvidenceFile(_Strict):
    """One file of a measuring tool. `path` is relative to the envelope's folder."""

    part: Literal["primary", "samples", "details", "validation"]
    path: Text
    sha256: Hex64
    size: Count
    media: Text
    tool: Text
    tool_version: Text
    select: dict[str, int | str] | None = None
    exit_code: int | None = None
    """What the tool ended with. Told, never judged: some tools end with 0 whatever they measured."""


class Model(_Strict):
    """The weights, pinned by the commit of their source or by a digest."""

    source: Text
    commit: Text | None = None
    weights_digest: Text | None = None

    @model_validator(mode="after")
    def _pinned(self) -> "Model":
        if self.commit is None and self.weights_digest is None:
            raise ValueError("a commit or a weights_digest must pin the model")
        return self


class Runtime(_Strict):
    """What runs: a container image, or the executable where there is no container."""

    image: Digest


class Engine(_Strict):
    """The inference server, and a digest of all arguments it was started with."""

    name: Text
    version: Text
    args_digest: Digest


class Accelerator(_Strict):
    """What one replica computes on; `partition` where it is a part of a device."""

    vendor: Text
    sku: Text
    count: Count
    partition: Text | None = None


class Parallelism(_Strict):
    """Accelerators in each dimension: tensor, pipeline, data, expert."""

    tp: Count = 1
    pp: Count = 1
    dp: Count = 1
    ep: Count = 1


class Subject(_Strict):
    """The revision that was measured. Its digest leaves out `revision_digest`, `stack` and `environment`."""

    revision_digest: Digest
    model: Model
    tokenizer_digest: Text
    chat_template_sha: Text
    runtime: Runtime
    engine: Engine
    accelerator: Accelerator
    parallelism: Parallelism
    quantization: Text | None = None
    provider: Text
    region: Text | None = None
    environment: Text | None = None
    stack: Text | None = None


class Lengths(_Strict):
    """How long prompts or answers are: the kind of distribution and its mean, in tokens."""

    kind: Text
    mean: Positive


class Scenario(_Strict):
    """The workload. Two sides are compared only on the same one."""

    id: Text
    dataset_digest: Digest | None = None
    load_model: Literal["open", "closed"] | None = None
    rate: Positive | None = None
    concurrency: Positive | None = None
    input_len: Lengths | None = None
    output_len: Lengths | None = None
    streaming: bool | None = None
    warmup_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    random_seed: int | None = None
    path: Text | None = None
    replicas: Count | None = None
    cache: Text | None = None


class Slo(_Strict):
    """Service level objectives of one request, in seconds."""

    ttft_s: Positive | None = None
    tpot_s: Positive | None = None
    e2e_s: Positive | None = None


class Window(_Strict):
    """From when to when it was measured."""

    started_at: UtcTime
    ended_at: UtcTime

    @property
    def started(self) -> datetime:
        return parse_time(self.started_at)

    @property
    def ended(self) -> datetime:
        return parse_time(self.ended_at)


class Runner(_Strict):
    """The measuring machine, and how far its clock is off."""

    host: Text | None = None
    clock_offset_ms: Annotated[float, Field(allow_inf_nan=False)] | None = None


class Planned(_Strict):
    """How much was to be measured."""

    requests: Count
    duration_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Run(_Strict):
    """Place of this run in a group of repeats; every ordinal 1..of must be present."""

    group: Text
    ordinal: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1)]


class Price(_Strict):
    """What the files of cost tools leave out: the currency of their amounts, and how old the prices behind them are."""

    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    """ISO 4217."""
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
    source: Text


class PrefixCache(_Strict):
    """Counters of the server, in tokens or blocks as it counts them."""

    hits: Count
    queries: Count


class Probe(_Strict):
    """What the server said of itself."""

    models: tuple[str, ...] | None = None
    version: str | None = None
    prefix_cache: PrefixCache | None = None
    restarts: Count | None = None


class Probes(_Strict):
    """The same questions before the first request and after the last."""

    before: Probe
    after: Probe


class Supersedes(_Strict):
    """An older piece that this one replaces, and why."""

    evidence_id: Digest
    reason: Text


class Envelope(_Strict):
    """See the module text. Digests carry their `sha256:` prefix except `files[].sha256`."""

    schema_: Annotated[Literal["infercrane.evidence/v1"], Field(alias="schema")]
    kind: Text
    evidence_id: Digest
    role: Literal["candidate", "baseline"]
    files: Annotated[tuple[EvidenceFile, ...], Field(min_length=1)]
    subject: Subject
    scenario: Scenario
    slo: Slo | None = None
    window: Window
    runner: Runner | None = None
    planned: Planned | None = None
    """How much was to be measured; tools that cut a run short rarely say so themselves."""
    run: Run | None = None
    probes: Probes | None = None
    price: Price | None = None
    supersedes: tuple[Supersedes, ...] = ()
    attestation: Attestation | None = None
    source: Text = "measured"
    binding: Literal["probed", "declared_by_importer"] = "probed"

    @property
    def primary(self) -> EvidenceFile:
        """The file the rules are judged on."""
        return next(file for file in self.files if file.part == "primary")

    @model_validator(mode="after")
    def _one_primary(self) -> "Envelope":
        if [file.part for file in self.files].count("primary") != 1:
            raise ValueError("exactly one file must be the primary one")
        if len({file.part for file in self.files}) < len(self.files):
            raise ValueError("two files are the same part")
        return self


def parse_envelope(document: Any) -> tuple[Envelope, bytes]:
    """The typed envelope of a strictly parsed document, and the bytes its `evidence_id` and signatures are made over.

    The envelope is typed from those very bytes: two readings of one file cannot differ in what they found there.

    Raises:
        Inadmissible: `schema_unknown`, `binding_missing` (a field of the subject is absent) or `bad_value`.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Inadmissible("schema_unknown", f"the envelope's schema is not {SCHEMA}")
    try:
        body = sealed_bytes(document)
        beside = canonical_bytes({key: document[key] for key in NOT_SEALED & document.keys()})
        return Envelope.model_validate_json(joined(beside, body)), body
    except CanonicalError as error:
        raise Inadmissible("bad_value", str(error)) from error
    except ValidationError as error:
        raise _inadmissible(error) from error


def _inadmissible(error: ValidationError) -> Inadmissible:
    first = findings(error, Envelope)[0]
    if first.type == "missing" and first.path[0] == "subject":
        return Inadmissible("binding_missing", f"{first.field} is absent")
    code = "schema_unknown" if first.type == "extra_forbidden" else "bad_value"
    return Inadmissible(code, f"{first.field or 'envelope'}: {first.text}")
