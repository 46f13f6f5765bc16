"""What the signatures of a document come to: the keys that counted, or the first reason why none did."""

from dataclasses import dataclass
from datetime import datetime

from pulumi_infercrane.guard.reasons import Inadmissible, Problem
from pulumi_infercrane.guard.trust.attestation import Attestation
from pulumi_infercrane.guard.trust.dsse import is_valid
from pulumi_infercrane.guard.trust.store import Trust


@dataclass(frozen=True)
class Statement:
    """Something signed: its type, its very bytes, what it attests, and the time keys are judged at."""

    payload_type: str
    body: bytes
    kind: str
    at: datetime


def vouchers(
    trust: Trust | None, attestation: Attestation | None, statement: Statement
) -> tuple[tuple[str, ...], Problem | None]:
    """Ids of the keys whose signatures of a statement count, and why it may not be used.

    The body of the statement is what was typed, not a copy of it. A policy without `trust` asks for nothing. Where
    signatures are not required, what keys the policy does not list have signed is as good as unsigned; a listed key
    that may not sign this, or a listed key's broken signature, is refused even there.
    """
    if trust is None:
        return (), None
    try:
        return _vouchers(trust, attestation, statement), None
    except Inadmissible as error:
        return (), error.problem


def _vouchers(trust: Trust, attestation: Attestation | None, statement: Statement) -> tuple[str, ...]:
    if attestation is None:
        if trust.require_signatures:
            raise Inadmissible("unsigned", "the policy requires a signature; add one with `infercrane guard sign`")
        return ()
    listed = any(signature.keyid in trust.keys for signature in attestation.signatures)
    if not listed and not trust.require_signatures:
        return ()
    return counted(trust, attestation, statement)


def counted(trust: Trust, attestation: Attestation, statement: Statement) -> tuple[str, ...]:
    """Ids of the keys that signed a statement and may, sorted; at least one.

    Raises:
        Inadmissible: `signature_invalid` when a listed key's signature does not fit, `untrusted_key` when no
            signature is by a listed key that may attest this kind at this time.
    """
    _check_form(attestation, statement)
    signed = [signature for signature in attestation.signatures if signature.keyid in trust.keys]
    for signature in signed:
        public_key = trust.keys[signature.keyid].public_key
        if not is_valid(public_key, signature.sig, statement.payload_type, statement.body):
            raise Inadmissible("signature_invalid", f"what key {short(signature.keyid)} signed is not this content")
    refusals = {one.keyid: trust.keys[one.keyid].refusal(statement.kind, statement.at) for one in signed}
    found = sorted(keyid for keyid, refusal in refusals.items() if not refusal)
    if not found:
        raise Inadmissible("untrusted_key", _why_none(attestation, refusals))
    return tuple(found)


def _check_form(attestation: Attestation, statement: Statement) -> None:
    if attestation.payload_type != statement.payload_type:
        detail = f"payloadType is {attestation.payload_type!r}, not {statement.payload_type!r}"
        raise Inadmissible("signature_invalid", detail)
    ids = [signature.keyid for signature in attestation.signatures]
    twice = sorted({keyid for keyid in ids if ids.count(keyid) > 1})
    if twice:
        raise Inadmissible("signature_invalid", f"two signatures claim to be by key {short(twice[0])}")


def _why_none(attestation: Attestation, refusals: dict[str, str]) -> str:
    if not refusals:
        return f"signed by {short(attestation.signatures[0].keyid)}, which the policy does not list"
    keyid, refusal = min(refusals.items())
    return f"key {short(keyid)} {refusal}"


def short(keyid: str) -> str:
    """A key id for people."""
    return f"{keyid[:19]}…"
