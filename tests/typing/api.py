"""The public surface as type checkers must see it.

Never run: mypy, pyright and ty read it against the installed distribution. A line marked `# wrong` must be an error
for each of them, every other line must be none. A checker that does not find the package fails on both counts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pulumi

import pulumi_infercrane.components
import pulumi_infercrane.guard
from pulumi_infercrane.components import (
    AcceleratorSpec,
    GpuPool,
    InferenceService,
    InferenceServiceArgs,
    Mirror,
    ModelSpec,
    PoolSpec,
    RevisionSpec,
    RouteArgs,
    RouterArgs,
    RuntimeSpec,
    ServiceLimits,
)
from pulumi_infercrane.guard import (
    Decision,
    EvidenceReference,
    EvidenceSet,
    GuardError,
    Ledger,
    Policy,
    decide,
    load_evidence,
    load_policy,
    reference_folder,
)


def a_revision(digest: str) -> RevisionSpec:
    return RevisionSpec(
        name="r1",
        model=ModelSpec(path="model.gguf", sha256=digest),
        runtime=RuntimeSpec(
            engine="llama.cpp", version="b10434", executable="llama-server", sha256=digest, settings={"threads": 2}
        ),
        pool=PoolSpec(accelerator=AcceleratorSpec(vendor="cpu", sku="host", count=1)),
    )


def a_revision_is_described_exactly(revision: RevisionSpec) -> None:
    digest: str = revision.digest
    subject: Mapping[str, object] = revision.subject
    number: int = revision.digest  # wrong
    print(digest, subject, number, revision.diggest)  # wrong


def a_pool(spec: PoolSpec) -> None:
    pool = GpuPool("pool", spec, pulumi.ResourceOptions(protect=True))
    accelerator: pulumi.Output[str] = pool.accelerator
    name: int = pool.accelerator  # wrong
    print(accelerator, name)
    GpuPool("pool", "cpu")  # wrong


def a_service(revisions: Sequence[RevisionSpec]) -> None:
    arguments = InferenceServiceArgs(revisions=revisions, policy="policy.yaml", candidate="r2", initial_active="r1")
    service = InferenceService("chat", arguments)
    url: pulumi.Output[str] = service.url
    verdict: pulumi.Output[str] = service.verdict
    plain: str = service.url  # wrong
    print(url, verdict, plain)
    InferenceServiceArgs(revisions=revisions)  # wrong


def a_route(revisions: Sequence[RevisionSpec]) -> InferenceServiceArgs:
    route = RouteArgs(limits=ServiceLimits(max_inflight=8), pins=["r2"], mirror=Mirror("r2", percent=10))
    RouteArgs(limits={"max_inflight": 8})  # wrong
    RouteArgs(limit=ServiceLimits(max_inflight=8))  # wrong
    RouterArgs(require_keys="yes")  # wrong
    return InferenceServiceArgs(revisions, policy="policy.yaml", router=RouterArgs(require_keys=True), route=route)


def a_decision(policy_file: Path, folder: Path) -> Decision:
    policy: Policy = load_policy(policy_file.read_bytes(), source=policy_file.name)
    references: tuple[EvidenceReference, ...] = reference_folder(folder)
    evidence: EvidenceSet = load_evidence(folder, references)
    decide(policy, evidence, service="chat", stack="prod", candidate="sha256:…", baseline="sha256:…")  # wrong
    return decide(
        policy,
        evidence,
        service="chat",
        stack="prod",
        candidate="sha256:…",
        baseline="sha256:…",
        as_of="2026-11-30T09:00:00Z",
    )


def a_decision_is_read_and_kept(decision: Decision, ledger: Ledger) -> None:
    verdict: str = decision.verdict
    reasons: tuple[str, ...] = decision.reasons
    canonical: bytes = decision.canonical
    decision.verdict = "promote"  # wrong
    print(verdict, reasons, canonical)
    ledger.append(decision.record)
    ledger.append(decision.verdict)  # wrong


def an_error(error: GuardError) -> str:
    code: str = error.code
    return code


def misspelt_names() -> None:
    print(pulumi_infercrane.components.RevisonSpec)  # wrong
    print(pulumi_infercrane.guard.deside)  # wrong
