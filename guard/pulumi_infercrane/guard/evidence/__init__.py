"""Evidence: envelopes, the files they vouch for, and the canonical records read from them."""

from typing import TYPE_CHECKING, Any

from pulumi_infercrane.guard.evidence.identity import evidence_id, revision_digest, seal

if TYPE_CHECKING:
    from pulumi_infercrane.guard.evidence.folder import (
        EvidenceReference,
        EvidenceSet,
        LoadedEvidence,
        load_evidence,
        newest_end,
        reference_folder,
    )

__all__ = [
    "EvidenceReference",
    "EvidenceSet",
    "LoadedEvidence",
    "evidence_id",
    "load_evidence",
    "newest_end",
    "reference_folder",
    "revision_digest",
    "seal",
]


def __getattr__(name: str) -> Any:
    """Folder reading needs pydantic; digests alone must not pay for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pulumi_infercrane.guard.evidence import folder

    return getattr(folder, name)
