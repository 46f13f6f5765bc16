"""Signing evidence, and traffic windows: a signature beside those a document has already."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest_bytes
from pulumi_infercrane.guard.errors import TrustError
from pulumi_infercrane.guard.evidence.envelope import parse_envelope
from pulumi_infercrane.guard.evidence.folder import MAX_ENVELOPE_BYTES
from pulumi_infercrane.guard.evidence.folder import SUFFIX as ENVELOPE_SUFFIX
from pulumi_infercrane.guard.evidence.window import MAX_BYTES, SUFFIX, signable
from pulumi_infercrane.guard.files import why, write_whole
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE, WINDOW_TYPE
from pulumi_infercrane.guard.trust.keys import SigningKey


def sign_file(path: Path, key: SigningKey) -> None:
    """Sign the envelope, or the window (`*.window.json`), in a file, in place and at once; other signatures stay.

    Raises:
        TrustError: when the file cannot be read or written, is none of the two, or was edited since it was sealed.
    """
    is_window = path.name.endswith(SUFFIX)
    most = MAX_BYTES if is_window else MAX_ENVELOPE_BYTES
    try:
        with path.open("rb") as file:
            document = parse(file.read(most + 1), max_bytes=most)
        if is_window:
            text = json.dumps(signed_window(document, key), separators=(",", ":"))
        else:
            text = json.dumps(signed(document, key), indent=2)
        write_whole(path, text.encode() + b"\n")
    except OSError as error:
        raise TrustError(f"{path}: cannot be signed: {why(error)}") from error
    except Inadmissible as error:
        is_named_so = path.name.endswith((ENVELOPE_SUFFIX, SUFFIX))
        hint = "" if is_named_so else f"; an envelope (*{ENVELOPE_SUFFIX}) or a window (*{SUFFIX}) is meant"
        raise TrustError(f"{path}: not signed: {error.problem}{hint}") from error


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


def signed_window(document: Any, key: SigningKey) -> dict[str, Any]:
    """A traffic window with the signature of a key.

    Raises:
        Inadmissible: when this is no window, or its other signatures are of another type.
    """
    beside, body = signable(document)
    if beside and beside.payload_type != WINDOW_TYPE:
        raise Inadmissible("signature_invalid", f"its payloadType is {beside.payload_type!r}")
    return {**document, "attestation": attestation(WINDOW_TYPE, body, key, document.get("attestation"))}


def attestation(
    payload_type: str, body: bytes, key: SigningKey, beside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The `attestation` of a body: what `beside` holds by other keys, and the signature of this one."""
    others = [signature for signature in (beside or {}).get("signatures", ()) if signature["keyid"] != key.id]
    return {"payloadType": payload_type, "signatures": [*others, key.sign(payload_type, body)]}
