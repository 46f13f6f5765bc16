"""The two digests an envelope lives by: which revision it speaks of, and which envelope it is."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.canonical import canonical_bytes, digest, digest_bytes

_NOT_IDENTITY = frozenset({"revision_digest", "stack", "environment"})
NOT_SEALED = frozenset({"evidence_id", "attestation"})
"""Fields of an envelope its `evidence_id` and its signatures are not made over."""


def revision_digest(subject: Mapping[str, Any]) -> str:
    """`sha256:…` of a subject without `revision_digest`, `stack` and `environment`.

    Raises:
        CanonicalError: when the subject has no canonical form.
    """
    return digest({key: value for key, value in subject.items() if key not in _NOT_IDENTITY})


def sealed_bytes(envelope: Mapping[str, Any]) -> bytes:
    """RFC 8785 form of an envelope without `evidence_id` and `attestation`: what is hashed, and what is signed.

    Raises:
        CanonicalError: when the envelope has no canonical form.
    """
    return canonical_bytes({key: value for key, value in envelope.items() if key not in NOT_SEALED})


def evidence_id(envelope: Mapping[str, Any]) -> str:
    """`sha256:…` of `sealed_bytes`.

    Raises:
        CanonicalError: when the envelope has no canonical form.
    """
    return digest_bytes(sealed_bytes(envelope))


def seal(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope with its `evidence_id` filled in: the last thing a measuring tool does.

    Raises:
        CanonicalError: when the envelope has no canonical form.
    """
    return {**envelope, "evidence_id": evidence_id(envelope)}
