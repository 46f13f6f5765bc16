"""Signatures beside the content they vouch for: DSSE without its payload, which is the document around them.

A payload of its own would be a second copy that somebody might read instead; such a field is refused as unknown.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_SIGNATURES = 16

_Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class Strict(BaseModel):
    """A document whose every field is known and of the very type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Signature(Strict):
    """One signature. `keyid` says which key of the trust store to try; no key is ever taken from here."""

    keyid: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    sig: _Text
    """Base64 of 64 bytes. Text of another form is read, and then counts as an invalid signature."""


class Attestation(Strict):
    """The signatures of one document."""

    payload_type: Annotated[_Text, Field(alias="payloadType")]
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1, max_length=MAX_SIGNATURES)]
