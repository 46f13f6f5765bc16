"""`infercrane.ledger/v1`: every decision of a stack, one a line, each chained to the one before."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Closed, Digest, document
from pulumi_infercrane.guard.schemas.decision import DecisionRecord


class LedgerLine(Closed):
    """`entry` is the digest of the other fields, `prev` the `entry` of the line before, empty on the first."""

    schema_: Annotated[Literal["infercrane.ledger/v1"], Field(alias="schema")]
    seq: Annotated[int, Field(ge=1)]
    prev: Digest | Literal[""]
    decision: DecisionRecord
    entry: Digest


def schema() -> dict[str, Any]:
    """Of each line."""
    return document(LedgerLine, "infercrane.ledger/v1")
