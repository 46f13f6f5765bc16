"""Money that a tool's file holds, and the tokens that another file has to add."""

from collections.abc import Mapping
from dataclasses import replace

from pulumi_infercrane.guard.evidence.envelope import Envelope, Price
from pulumi_infercrane.guard.evidence.records import Cost
from pulumi_infercrane.guard.reasons import Inadmissible

TOLERATED_DURATION_SHARE = 0.05


def stated_price(envelope: Envelope) -> Price:
    """Currency, date and source of the prices.

    Raises:
        Inadmissible: `cost_incomplete` when the envelope does not state them.
    """
    if envelope.price is None:
        tool = envelope.primary.tool
        raise Inadmissible(
            "cost_incomplete", f"{tool} writes no currency and no price date: state `price` in the envelope"
        )
    return envelope.price


def with_tokens(cost: Cost, parts: Mapping[str, bytes], envelope: Envelope) -> Cost:
    """The cost with tokens and requests of the part `details`, any tool's cost evidence over the same time.

    Raises:
        Inadmissible: of the other tool's reader; `inconsistent` when it covers another length of time.
    """
    if "details" not in parts:
        return cost
    from pulumi_infercrane.guard.evidence.readers import reader_for  # one of them imports this module

    (file,) = (one for one in envelope.files if one.part == "details")
    alone = envelope.model_copy(update={"files": (file.model_copy(update={"part": "primary"}),)})
    counted = reader_for(file.tool, file.tool_version).read({"primary": parts["details"]}, alone)
    if not isinstance(counted, Cost) or counted.output_tokens is None:
        raise Inadmissible("cost_incomplete", f"details: {file.tool} counts no tokens here")
    if abs(counted.duration_s - cost.duration_s) > TOLERATED_DURATION_SHARE * cost.duration_s:
        text = f"details: tokens of {counted.duration_s:.4g} s beside the cost of {cost.duration_s:.4g} s"
        raise Inadmissible("inconsistent", text)
    return replace(
        cost,
        output_tokens=counted.output_tokens,
        input_tokens=counted.input_tokens,
        requests=counted.requests,
        good_requests=counted.good_requests,
    )
