"""The two digests an envelope lives by: which revision it speaks of, and which envelope it is."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.canonical import digest

_NOT_IDENTITY = frozenset({"revision_digest", "stack", "environment"})
_NOT_SEALED = frozenset({"evidence_id", "attestation"})


def revision_digest(subject: Mapping[str, Any]) -> str:
    """`sha256:…` of a subject without `revision_digest`, `stack` and `environment`.

    Raises:
        CanonicalError: when the subject has no canonical form.
    """
    return digest({key: value for key, value in subject.items() if key not in _NOT_IDENTITY})


def evidence_id(envelope: Mapping[str, Any]) -> str:
    """`sha256:…` of an envelope without `evidence_id` and `attestation`.

    Raises:
        CanonicalError: when the envelope has no canonical form.
    """
    return digest({key: value for key, value in envelope.items() if key not in _NOT_SEALED})


def seal(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope with its `evidence_id` filled in: the last thing a measuring tool does.

    Raises:
        CanonicalError: when the envelope has no canonical form.
    """
    return {**envelope, "evidence_id": evidence_id(envelope)}
