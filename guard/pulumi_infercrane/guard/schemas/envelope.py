"""`infercrane.evidence/v1`: the envelope, as it is read."""

from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.schemas._words import document


def schema() -> dict[str, Any]:
    """Generated from the type the guard itself reads with."""
    return document(Envelope, "infercrane.evidence/v1")
