"""DSSE v1 over Ed25519: the type of a document is signed together with its bytes.

https://github.com/secure-systems-lab/dsse; a signature made for one type is none for another.
"""

import base64
import binascii
import hashlib

EVIDENCE_TYPE = "application/vnd.infercrane.evidence+json"
WINDOW_TYPE = "application/vnd.infercrane.window+json"
OVERRIDE_TYPE = "application/vnd.infercrane.override+json"

KEY_BYTES, SIGNATURE_BYTES = 32, 64


def signed_bytes(payload_type: str, body: bytes) -> bytes:
    """`DSSEv1 <length> <type> <length> <body>`, lengths in bytes: what the signature is made over."""
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def key_id(public_key: bytes) -> str:
    """`sha256:<64 hex>` of the 32 raw bytes: the whole digest, since a short one could be met by chance or by work."""
    return "sha256:" + hashlib.sha256(public_key).hexdigest()


def is_valid(public_key: bytes, signature: str, payload_type: str, body: bytes) -> bool:
    """Whether the owner of a raw public key signed these bytes as this type; False for text that is no signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = from_base64(signature, SIGNATURE_BYTES)
        Ed25519PublicKey.from_public_bytes(public_key).verify(raw, signed_bytes(payload_type, body))
    except (ValueError, InvalidSignature):
        return False
    return True


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_base64(text: str, size: int) -> bytes:
    """The `size` bytes a text stands for, in the one form RFC 4648 gives them.

    Raises:
        ValueError: for blanks, another alphabet, missing padding, stray bits, or another size.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    if len(data) != size or to_base64(data) != text:
        raise ValueError(f"not the base64 of {size} bytes")
    return data
