"""InferenceService refuses arguments that contradict each other before anything is declared."""

from typing import Any

import pytest

from pulumi_infercrane.components import (
    ComponentError,
    InferenceServiceArgs,
    RevisionSpec,
    RouteArgs,
    RouterArgs,
)
from pulumi_infercrane.components.service import InvalidService, _refuse_contradictions

SHA = "sha256:" + "a" * 64


def spec(name: str, threads: int) -> RevisionSpec:
    runtime = {"engine": "llama.cpp", "version": "b1", "executable": "llama-server", "sha256": SHA}
    model = {"path": "m.gguf", "sha256": SHA}
    return RevisionSpec.model_validate(
        {"name": name, "model": model, "runtime": runtime | {"settings": {"threads": threads}}}
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"revisions": []}, "declare at least one"),
        ({"revisions": [spec("r1", 1), spec("r1", 2)]}, "two revisions are called 'r1'"),
        ({"revisions": [spec("r1", 1), spec("r2", 1)]}, "'r1' and 'r2' describe the same thing"),
        ({"candidate": "r9"}, "candidate: 'r9' is not declared; declared are r1, r2"),
        ({"initial_active": "r9"}, "initial_active: 'r9' is not declared"),
    ],
)
def test_a_contradiction_is_named(changes: dict[str, Any], message: str) -> None:
    args: dict[str, Any] = {"revisions": [spec("r1", 1), spec("r2", 2)], "policy": "policy.yaml"} | changes
    with pytest.raises(InvalidService, match=message):
        _refuse_contradictions(InferenceServiceArgs(**args))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"route": RouteArgs(pins=["r3"])}, r"route\.pins\[0\]: no revision 'r3' is declared"),
        ({"router": RouterArgs(listen="0.0.0.0:8000")}, r"router\.listen: .*loopback only"),
        ({"router": RouterArgs(record="none.yaml")}, r"router\.record: .* is no file"),
    ],
)
def test_a_route_and_a_router_that_cannot_be_are_refused_too(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ComponentError, match=message):
        _refuse_contradictions(InferenceServiceArgs([spec("r1", 1)], policy="policy.yaml", **changes))


def test_what_fits_together_is_accepted() -> None:
    _refuse_contradictions(
        InferenceServiceArgs(revisions=[spec("r1", 1), spec("r2", 2)], policy="policy.yaml", candidate="r2")
    )
