"""`infercrane.cost/v1`: one priced window, one line per request."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Count, Date, Header, Line, Share, lines

Amount = Annotated[float, Field(ge=0)]


class CostHeader(Header):
    schema_: Annotated[Literal["infercrane.cost/v1"], Field(alias="schema")]
    currency: str
    price_source: str
    price_date: Date
    price_per_gpu_hour: Amount
    gpu_count: Amount
    duration_s: Amount
    other_cost: Amount | None = None
    idle_included: bool | None = None
    utilisation: Share | None = None
    """Of the time that is charged, the share in which a request was under way."""


class CostLine(Line):
    in_tokens: Count | None = None
    out_tokens: Count | None = None
    good: bool | None = None


def schema() -> dict[str, Any]:
    """Of each line."""
    return lines(CostHeader, CostLine, "infercrane.cost/v1")
