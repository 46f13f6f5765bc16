"""What a piece of evidence must have measured to speak about a revision of a decision.

Everything by the exact digest, except quality: answers do not depend on how many machines give them, or where. Events
and cost do, so these two must also come from the stack that is decided about, where they say which one it was.
"""

from collections.abc import Iterable, Mapping

from pulumi_infercrane.guard.evidence.envelope import Envelope, Subject
from pulumi_infercrane.guard.evidence.folder import LoadedEvidence
from pulumi_infercrane.guard.policy import same_stack
from pulumi_infercrane.guard.reasons import Problem, gate_rank

_ANSWERS = ("model", "tokenizer_digest", "chat_template_sha", "runtime", "engine", "quantization")
"""Fields that decide what a revision answers, beside the accelerator's model."""
_OF_ONE_STACK = ("reliability", "cost")


def subjects_in(items: Iterable[LoadedEvidence]) -> Mapping[str, Subject]:
    """The subjects that evidence declares, by revision digest. Only those whose digest was found to be theirs."""
    return {
        item.envelope.subject.revision_digest: item.envelope.subject
        for item in sorted(items, key=lambda item: item.evidence_id)
        if item.envelope and (item.problem is None or gate_rank(item.problem.code) > gate_rank("binding_conflict"))
    }


def binding_problem(envelope: Envelope, asked: str, subject: Subject | None, stack: str) -> Problem | None:
    """Why a piece does not speak about the revision `asked`, whose `subject` may be known; None when it does."""
    measured = envelope.subject
    same = measured.revision_digest == asked
    if not same and not (envelope.kind == "quality" and subject and _answer_alike(measured, subject)):
        about = f"about {asked[:19]}…" if asked else "about a first revision, which is compared with nothing"
        detail = f"measured {envelope.role} {measured.revision_digest[:19]}…, this decision is {about}"
        return Problem("binding_mismatch", detail)
    if envelope.kind in _OF_ONE_STACK:
        return _stack_problem(measured, stack)
    return None


def _answer_alike(one: Subject, other: Subject) -> bool:
    same = all(getattr(one, name) == getattr(other, name) for name in _ANSWERS)
    return same and (one.accelerator.vendor, one.accelerator.sku) == (other.accelerator.vendor, other.accelerator.sku)


def _stack_problem(measured: Subject, stack: str) -> Problem | None:
    declared = measured.stack or measured.environment
    if not declared or same_stack(declared, stack):
        return None
    return Problem("binding_mismatch", f"measured in {declared!r}, this decision is about {stack!r}")
