"""The decision record itself in RFC 8785 form: what other programs read, and what `guard verify` compares."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.canonical import canonical_bytes
from pulumi_infercrane.guard.report import RECORD_ALONE, Context


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The record, byte for byte as it was sealed."""
    return canonical_bytes(record).decode()
