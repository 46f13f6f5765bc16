"""Canonical JSON (RFC 8785), the digests built on it, and the precision every judged number is rounded to."""

import hashlib
from pathlib import Path
from typing import Any

import rfc8785

from pulumi_infercrane.guard.errors import CanonicalError

SIGNIFICANT_DIGITS = 9


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 form of a JSON value (dict, list, tuple, str, int, float, bool, None).

    Raises:
        CanonicalError: for non-finite numbers, integers beyond ±(2^53-1), other types and lone surrogates.
    """
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:
        raise CanonicalError(f"no canonical JSON form: {error}") from error


def joined(one: bytes, other: bytes) -> bytes:
    """Two JSON objects without a common key as one, byte for byte; `other` is not the empty object."""
    return other if one == b"{}" else one[:-1] + b"," + other[1:]


def digest(value: Any) -> str:
    """`sha256:<64 hex>` of the canonical form of a JSON value."""
    return digest_bytes(canonical_bytes(value))


def digest_bytes(data: bytes) -> str:
    """`sha256:<64 hex>` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """`sha256:<64 hex>` of a file's content, read in pieces.

    Raises:
        OSError: when the file cannot be read.
    """
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def rounded(number: float) -> float:
    """The number at nine significant digits: what is judged and stored, equal on every processor."""
    return float(f"{number:.{SIGNIFICANT_DIGITS}g}")
