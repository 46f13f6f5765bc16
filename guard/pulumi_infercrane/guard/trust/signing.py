"""Signing evidence: a signature beside those an envelope has already."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest_bytes
from pulumi_infercrane.guard.errors import TrustError
from pulumi_infercrane.guard.evidence.envelope import parse_envelope
from pulumi_infercrane.guard.evidence.folder import MAX_ENVELOPE_BYTES
from pulumi_infercrane.guard.files import write_whole
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE
from pulumi_infercrane.guard.trust.keys import SigningKey


def sign_file(path: Path, key: SigningKey) -> None:
    """Sign the envelope in a file, in place and at once; signatures by other keys stay.

    Raises:
        TrustError: when the file cannot be read or written, is no envelope, or was edited since it was sealed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ENVELOPE_BYTES + 1)
        document = signed(parse(data, max_bytes=MAX_ENVELOPE_BYTES), key)
        write_whole(path, json.dumps(document, indent=2).encode() + b"\n")
    except OSError as error:
        raise TrustError(f"{path}: cannot be signed: {error.strerror}") from error
    except Inadmissible as error:
        raise TrustError(f"{path}: not signed: {error.problem}") from error


def signed(document: Any, key: SigningKey) -> dict[str, Any]:
    """A sealed envelope with the signature of a key.

    Raises:
        Inadmissible: when this is no envelope, its seal is broken, or its other signatures are of another type.
    """
    envelope, body = parse_envelope(document)
    if digest_bytes(body) != envelope.evidence_id:
        raise Inadmissible("tampered", "the envelope was edited: its content does not give its evidence_id")
    if envelope.attestation and envelope.attestation.payload_type != EVIDENCE_TYPE:
        raise Inadmissible("signature_invalid", f"its payloadType is {envelope.attestation.payload_type!r}")
    return {**document, "attestation": attestation(EVIDENCE_TYPE, body, key, document.get("attestation"))}


def attestation(
    payload_type: str, body: bytes, key: SigningKey, beside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The `attestation` of a body: what `beside` holds by other keys, and the signature of this one."""
    others = [signature for signature in (beside or {}).get("signatures", ()) if signature["keyid"] != key.id]
    return {"payloadType": payload_type, "signatures": [*others, key.sign(payload_type, body)]}
