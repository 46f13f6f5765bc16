"""The Release Guard: evidence in, one of three verdicts out. Useful alone; imports nothing else of ours.

    policy = load_policy(Path("policy.yaml").read_bytes())
    evidence = load_evidence(Path("evidence"))
    decision = decide(policy, evidence, service="chat", stack="prod", candidate=…, baseline=…, as_of=…)
    decision.verdict  # "promote", "reject" or "insufficient_evidence"

Names are imported when they are first used: a program that only needs a digest does not load pydantic.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulumi_infercrane.guard.decision import Decision, bootstrap, decide, rollback
    from pulumi_infercrane.guard.errors import (
        CanonicalError,
        EvidenceError,
        GuardError,
        LedgerError,
        OverrideError,
        PolicyError,
        TrustError,
    )
    from pulumi_infercrane.guard.evidence.folder import (
        EvidenceReference,
        EvidenceSet,
        LoadedEvidence,
        load_evidence,
        newest_end,
        reference_folder,
    )
    from pulumi_infercrane.guard.evidence.identity import evidence_id, revision_digest, seal
    from pulumi_infercrane.guard.evidence.window import LoadedWindow, load_windows, read_window
    from pulumi_infercrane.guard.ledger import Ledger, LedgerEntry
    from pulumi_infercrane.guard.overrides import Override, override, read_override, sign_override
    from pulumi_infercrane.guard.policy import Policy, load_policy
    from pulumi_infercrane.guard.rollout.canary import canary_step
    from pulumi_infercrane.guard.rollout.progress import OpenStep, behind_active, open_step, route_decision, step_of
    from pulumi_infercrane.guard.rollout.watch import post_promotion
    from pulumi_infercrane.guard.trust.keys import SigningKey, load_key, new_key
    from pulumi_infercrane.guard.trust.signing import sign_file, signed_window

__all__ = [
    "CanonicalError",
    "Decision",
    "EvidenceError",
    "EvidenceReference",
    "EvidenceSet",
    "GuardError",
    "Ledger",
    "LedgerEntry",
    "LedgerError",
    "LoadedEvidence",
    "LoadedWindow",
    "OpenStep",
    "Override",
    "OverrideError",
    "Policy",
    "PolicyError",
    "SigningKey",
    "TrustError",
    "behind_active",
    "bootstrap",
    "canary_step",
    "decide",
    "evidence_id",
    "load_evidence",
    "load_key",
    "load_policy",
    "load_windows",
    "new_key",
    "newest_end",
    "open_step",
    "override",
    "post_promotion",
    "read_override",
    "read_window",
    "reference_folder",
    "revision_digest",
    "rollback",
    "route_decision",
    "seal",
    "sign_file",
    "sign_override",
    "signed_window",
    "step_of",
]

_HOMES = {
    "decision": ("Decision", "bootstrap", "decide", "rollback"),
    "errors": (
        "CanonicalError",
        "EvidenceError",
        "GuardError",
        "LedgerError",
        "OverrideError",
        "PolicyError",
        "TrustError",
    ),
    "evidence.folder": (
        "EvidenceReference",
        "EvidenceSet",
        "LoadedEvidence",
        "load_evidence",
        "newest_end",
        "reference_folder",
    ),
    "evidence.identity": ("evidence_id", "revision_digest", "seal"),
    "evidence.window": ("LoadedWindow", "load_windows", "read_window"),
    "ledger": ("Ledger", "LedgerEntry"),
    "overrides": ("Override", "override", "read_override", "sign_override"),
    "policy": ("Policy", "load_policy"),
    "rollout.canary": ("canary_step",),
    "rollout.progress": ("OpenStep", "behind_active", "open_step", "route_decision", "step_of"),
    "rollout.watch": ("post_promotion",),
    "trust.keys": ("SigningKey", "load_key", "new_key"),
    "trust.signing": ("sign_file", "signed_window"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # with it a type checker would believe any name

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
