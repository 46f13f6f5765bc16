"""The HTTPRoute, by the schema of its CRD."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export import find_exporter
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, revision
from tests.router.export.conftest import table_of
from tests.router.export.test_render import PLACE, both

SCHEMA = json.loads((Path(__file__).parent / "samples" / "httproute-v1.schema.json").read_text())
TARGETS = ["gateway_api", "inference_pool"]


def route(table: RouteTable, target: str = "gateway_api") -> Any:
    (content,) = find_exporter(target).render(table, PLACE).values()
    return json.loads(content)


@pytest.mark.parametrize("target", TARGETS)
def test_the_object_is_what_the_crd_demands(target: str) -> None:
    found = route(table_of(both(target), R1, pins=[R2]), target)
    assert list(Draft202012Validator(SCHEMA).iter_errors(found)) == []


def test_the_schema_sees_a_wrong_field() -> None:
    found = route(table_of(both("gateway_api"), R1))
    found["spec"]["rules"][0]["backendRefs"][0]["wieght"] = 1
    assert list(Draft202012Validator(SCHEMA).iter_errors(found))


def weights(rule: Any) -> dict[str, int]:
    return {reference["name"]: reference["weight"] for reference in rule["backendRefs"]}


def test_a_flip_is_a_change_of_weights() -> None:
    table = both("gateway_api")
    assert weights(route(table_of(table, R1))["spec"]["rules"][0]) == {"r1": 100, "r2": 0}
    assert weights(route(table_of(table, R2))["spec"]["rules"][0]) == {"r1": 0, "r2": 100}


def test_replicas_share_alike() -> None:
    table = {R1: revision("r1", "http://a.n.svc:80", "http://b.n.svc:80"), R2: revision("r2", "http://c.n.svc:80")}
    assert weights(route(table_of(table, R1))["spec"]["rules"][0]) == {"a": 100, "b": 100, "c": 0}


def test_shares_are_divided_among_replicas() -> None:
    table = {R1: revision("r1", "http://a.n.svc:80", "http://b.n.svc:80"), R2: revision("r2", "http://c.n.svc:80")}
    (rule,) = route(replace(table_of(table, R1), weights={R1: 90, R2: 10}))["spec"]["rules"]
    assert weights(rule) == {"a": 90, "b": 90, "c": 20}


def test_every_backend_names_its_revision_and_no_key_of_a_client_goes_on() -> None:
    (rule,) = route(table_of(both("gateway_api"), R1))["spec"]["rules"]
    named = [one["filters"][0]["responseHeaderModifier"]["set"][0]["value"] for one in rule["backendRefs"]]
    assert named == [R1, R2]
    assert "Authorization" in rule["filters"][0]["requestHeaderModifier"]["remove"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_a_pin_goes_to_its_revision_only() -> None:
    pinned, other = route(table_of(both("gateway_api"), R1, pins=[R2]))["spec"]["rules"]
    assert weights(pinned) == {"r2": 100}
    assert all(match["headers"] == [{"name": "X-InferCrane-Revision", "value": R2}] for match in pinned["matches"])
    assert all("headers" not in match for match in other["matches"])


def test_the_object_claims_its_rules_only_and_says_which_table_it_is() -> None:
    table = table_of(both("gateway_api"), R1)
    found = route(table)
    assert list(found["spec"]) == ["rules"]
    assert found["metadata"]["namespace"] == "models"
    assert found["metadata"]["annotations"] == {
        "infercrane.io/decision-id": "decision-1",
        "infercrane.io/digest": table.digest,
        "infercrane.io/generation": "1",
    }


def test_a_pool_takes_the_place_of_a_service() -> None:
    (rule,) = route(table_of(both("inference_pool"), R1), "inference_pool")["spec"]["rules"]
    first = rule["backendRefs"][0]
    assert (first["group"], first["kind"], first["name"]) == ("inference.networking.k8s.io", "InferencePool", "r1")


def test_nothing_active_cannot_be_said() -> None:
    with pytest.raises(ExportRefused, match="no revision is active yet"):
        route(table_of(both("gateway_api")))
