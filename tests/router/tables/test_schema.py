"""Documents are read all or nothing, and every broken rule is named."""

from typing import Any

import pytest

from pulumi_infercrane.router.errors import TableInvalid
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.schema import (
    read_declared,
    read_drain,
    read_flip,
    read_service_name,
    read_settings,
    read_table,
    read_weights,
)
from pulumi_infercrane.router.tables.table import Health, Mirror, RouteTable, ServiceLimits, Timers, digest_of
from tests.router.conftest import R1, R2, declared, revision

GOOD = declared({R1: revision("r1", "http://10.0.0.7:8000"), R2: revision("r2", "https://host/prefix")}, pins=[R2])


def findings(document: Any) -> tuple[str, ...]:
    with pytest.raises(TableInvalid) as refused:
        read_declared(document)
    return refused.value.findings


def test_a_table_is_read_and_written_unchanged() -> None:
    table = RouteTable("chat", 42, read_declared(GOOD), active=R1, decision_id="decision-1")
    assert read_table(table.document()) == table
    assert table.document()["generation"] == "42"


def test_defaults_are_written_out() -> None:
    document = read_declared(GOOD).document()
    assert document["timers"] == {"connect_s": 5, "first_byte_s": 600, "gap_s": 60, "client_stall_s": 60}
    assert document["revisions"][R1]["state"] == "serving"
    assert read_declared(document) == read_declared(GOOD)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    document = RouteTable("chat", 1, read_declared(GOOD)).document()
    shuffled = dict(reversed(document.items()))
    assert read_table(shuffled).digest == document["digest"]
    assert digest_of({"b": 1, "a": 1.0}) == digest_of({"a": 1, "b": 1})


def changed(**more: Any) -> dict[str, Any]:
    return GOOD | more


def with_upstream(**more: Any) -> dict[str, Any]:
    entry = revision("r1", "http://a:1")
    entry["upstreams"][0] |= more
    return changed(revisions={R1: entry}, pins=[])


def with_routing(**more: Any) -> dict[str, Any]:
    return changed(revisions={R1: revision("r1", "http://a:1", **more)}, pins=[])


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        ([], "table: must be an object"),
        (changed(surprise=1), "table.surprise: unknown field; known are"),
        ({"aliases": ["a"], "protocols": []}, "table: field 'revisions' is missing"),
        (changed(aliases=[]), "aliases: must be a list of 1 to 256 items"),
        (changed(aliases=["a", "a"]), "aliases: 'a' occurs twice"),
        (changed(aliases=["a\n"]), "aliases[0]: 'a\\n' is not "),
        (
            changed(protocols=["chats"]),
            "protocols: unknown 'chats'; known are chat, completions",
        ),
        (changed(revisions={"r1": revision("r1", "http://a:1")}, pins=[]), "'r1' is not sha256: and 64 hex digits"),
        (changed(pins=["sha256:" + "9" * 64]), "is not among the revisions"),
        (changed(timers={"gap_s": 0}), "timers.gap_s: must be seconds, from 0.001 to 86400"),
        (changed(timers={"gap_s": True}), "timers.gap_s: must be seconds"),
        (changed(timers={"gap": 1}), "timers.gap: unknown field; known are"),
        (changed(limits=None), "limits: must be an object"),
        (changed(limits={}), "limits: needs max_inflight or max_inflight_per_revision"),
        (changed(limits={"max_inflight": 0}), "limits.max_inflight: must be a whole number from 1"),
        (changed(limits={"max_inflight": 1.0}), "limits.max_inflight: must be a whole number"),
        (changed(limits={"max_inflight": 1, "max_queue": -1}), "limits.max_queue: must be a whole number from 0"),
        (changed(limits={"max_inflight": 1, "queue_timeout_s": 0}), "limits.queue_timeout_s: must be seconds"),
        (changed(limits={"max_inflight": 1, "rps": 1}), "limits.rps: unknown field; known are"),
        (changed(revisions={R1: revision("r", "http://a"), R2: revision("r", "http://b")}), "labels: 'r' occurs twice"),
        (changed(revisions={R1: revision("r1"), R2: revision("r2", "http://b")}), "upstreams: must be a list of 1"),
        (changed(revisions={R1: revision("r1", "http://a", state="gone")}, pins=[]), "state: must be serving or"),
        (with_routing(balance="random"), "balance: must be one of consistent_hash, least_inflight"),
        (with_routing(health={"eject_after": 0}), "health.eject_after: must be a whole number from 1 to 1000"),
        (with_routing(health={"probe_s": -1}), "health.probe_s: must be seconds"),
        (with_routing(health={"probes": 1}), "health.probes: unknown field; known are"),
        (with_routing(answer_as_alias="yes"), "answer_as_alias: must be true or false"),
        (changed(pinning="yes"), "pinning: must be true or false"),
        (changed(stack="shop/"), "stack: 'shop/' is not "),
        (changed(stack="a/b/c/d"), "stack: 'a/b/c/d' is not "),
        (changed(session_header="X-Session"), "session_header: 'X-Session' is not "),
        (changed(fallback="sha256:" + "9" * 64), "fallback: sha256:9"),
        (changed(mirror={"revision": R2}), "mirror: field 'percent' is missing"),
        (changed(mirror={"revision": "", "percent": 1}), "mirror.revision: '' is not "),
        (changed(mirror={"revision": R2, "percent": 0}), "mirror.percent: must be a whole number from 1 to 100"),
        (changed(mirror={"revision": R2, "percent": True}), "mirror.percent: must be a whole number"),
        (with_upstream(state="gone"), "upstreams[0].state: must be serving or draining"),
        (with_upstream(state="draining"), "upstreams: one must be serving"),
        (with_upstream(key="sk-secret"), "upstreams[0].key: unknown field; known are"),
        (with_upstream(key_ref="sk-secret"), "upstreams[0].key_ref: 'sk-secret' is not "),
        (with_upstream(url="http://169.254.169.254/latest"), "upstreams[0].url: is a link-local (cloud metadata)"),
        (with_upstream(url="http://a/x HTTP/1.1 y"), f"revisions.{R1}.upstreams[0].url: may hold visible ASCII"),
        (with_upstream(url="http://a..b:1"), f"revisions.{R1}.upstreams[0].url: 'a..b:1' is not host:port"),
    ],
)
def test_a_broken_rule_is_named(document: Any, finding: str) -> None:
    assert any(finding in found for found in findings(document)), findings(document)


def test_all_findings_come_together() -> None:
    assert len(findings(changed(aliases=[], protocols=["x"], surprise=1))) == 3


@pytest.mark.parametrize("name", ["chat", "a", "a-b_c9", "a" * 63])
def test_service_names(name: str) -> None:
    assert read_service_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a/b", "..", "a" * 64, "a\n"])
def test_service_names_that_are_none(name: str) -> None:
    with pytest.raises(TableInvalid, match="up to 63"):
        read_service_name(name)


def test_a_flip_is_read() -> None:
    document = {"expected_active": "", "to": R1, "decision_id": "d", "expires_at": "2026-11-30T09:00:00Z"}
    assert read_flip(document) == Flip("", R1, "d", "2026-11-30T09:00:00Z")


@pytest.mark.parametrize(
    "change", [{"to": ""}, {"decision_id": ""}, {"expires_at": "tomorrow"}, {"expected_generation": "x"}, {"force": 1}]
)
def test_a_flip_that_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(TableInvalid):
        read_flip({"expected_active": "", "to": R1, "decision_id": "d"} | change)


def test_a_drain_is_read() -> None:
    assert read_drain({"revision": R1, "deadline_s": 0}) == (R1, 0)
    with pytest.raises(TableInvalid, match=r"drain.deadline_s: must be seconds"):
        read_drain({"revision": R1, "deadline_s": -1})


def test_timers_are_seconds() -> None:
    assert read_declared(changed(timers={"gap_s": 1.5})).timers == Timers(gap_s=1.5)


def test_no_answer_has_to_end_in_time_unless_it_is_said() -> None:
    assert "total_s" not in read_declared(changed(timers={})).timers.document()
    timers = read_declared(changed(timers={"total_s": 900})).timers
    assert (timers.total_s, timers.document()["total_s"]) == (900, 900)


def test_a_table_that_uses_nothing_new_is_written_as_ever() -> None:
    """What an earlier version persisted keeps its digest, and that version reads what is written now."""
    document = RouteTable("chat", 42, read_declared(GOOD), active=R1, decision_id="decision-1").document()
    assert set(document) == {
        *("schema", "service", "generation", "decision_id", "active", "digest"),
        *("aliases", "protocols", "revisions", "pins", "timers"),
    }
    assert set(document["revisions"][R1]) == {"label", "state", "upstream_model", "dialect", "upstreams"}
    assert set(document["revisions"][R1]["upstreams"][0]) == {"id", "url"}
    assert document["digest"] == "sha256:16b88b1fd88e74fbb0c4c118d631a90511c5c6cd808c36f9426a58573149e3cc"


def test_everything_about_routing_is_read_and_written_unchanged() -> None:
    health = {"eject_after": 3, "probe_s": 10, "slow_start_s": 30}
    entry = revision("r1", "http://a:1", "http://a:2", balance="least_inflight", health=health, answer_as_alias=True)
    entry["upstreams"][1]["state"] = "draining"
    more = {"pinning": True, "session_header": "x-session", "fallback": R2, "mirror": {"revision": R2, "percent": 10}}
    more["stack"] = "shop/prod"
    declared = read_declared(changed(revisions={R1: entry, R2: revision("r2", "http://b")}, **more))
    assert declared.revisions[R1].health == Health(eject_after=3, probe_s=10, slow_start_s=30)
    assert [one.answer_as_alias for one in declared.revisions.values()] == [True, False]
    assert declared.mirror == Mirror(R2, 10)
    table = RouteTable("chat", 2, declared, R1, "d", weights={R1: 95, R2: 5}, weights_decision_id="w")
    assert read_table(table.document()) == table


def persisted(**more: Any) -> dict[str, Any]:
    document = RouteTable("chat", 2, read_declared(GOOD), R1, "d").document() | more
    del document["digest"]
    return document | {"digest": digest_of(document)}


@pytest.mark.parametrize(
    ("weights", "finding"),
    [
        ({R1: 50, R2: 40}, "weights: must add up to 100, not 90"),
        ({R1: 100}, "weights: must be of the active revision and one other"),
        ({R1: 50, "sha256:" + "9" * 64: 50}, "weights: must be of the active revision and one other"),
        ({R1: 50.0, R2: 50}, "must be a whole number from 0 to 100"),
        ([], "weights: must be an object"),
    ],
)
def test_persisted_weights_that_are_none(weights: Any, finding: str) -> None:
    with pytest.raises(TableInvalid, match=finding):
        read_table(persisted(weights=weights))


def test_weights_are_read() -> None:
    document = {"expected_active": R1, "weights": {R1: 95, R2: 5}, "decision_id": "d", "expected_weights": {R1: 100}}
    assert read_weights(document) == Weights(R1, {R1: 95, R2: 5}, "d", expected_weights={R1: 100})


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {R1: 95, R2: 6}},
        {"weights": {R1: 105, R2: -5}},
        {"weights": {"r1": 100}},
        {"weights": None},
        {"expected_weights": {R1: 1}},
        {"decision_id": ""},
        {"to": R2},
    ],
)
def test_weights_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(TableInvalid):
        read_weights({"expected_active": R1, "weights": {R1: 95, R2: 5}, "decision_id": "d"} | change)


def test_limits_are_read_and_written_unchanged() -> None:
    table = RouteTable("chat", 1, read_declared(changed(limits={"max_inflight": 8, "queue_timeout_s": 0.5})))
    assert table.declared.limits == ServiceLimits(max_inflight=8, queue_timeout_s=0.5)
    assert read_table(table.document()) == table


def test_settings_are_read_without_the_rest_of_a_table() -> None:
    given = {"limits": {"max_inflight": 2}, "pins": [R2], "balance": "round_robin", "health": {"probe_s": 5}}
    read = read_settings(given, [R1, R2])
    assert read == {
        "limits": ServiceLimits(max_inflight=2).document(),
        "pins": [R2],
        "balance": "round_robin",
        "health": Health(probe_s=5).document(),
    }
    assert read_settings(read, [R1, R2]) == read
    assert read_settings({}, [R1]) == {}


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        ({"limit": {}}, "limit: unknown field; known are pins, "),
        ({"limits": {"max_queue": "8", "max_inflight": 1}}, "limits.max_queue: must be a whole number from 0 to"),
        ({"mirror": {"revision": R2, "percent": 5}}, f"mirror.revision: {R2} is not among the revisions"),
        ({"balance": "fastest"}, "balance: must be one of consistent_hash, "),
        ({"health": {"probe_s": -1}}, "health.probe_s: must be seconds, from 0 to 86400"),
    ],
)
def test_a_finding_about_a_setting_begins_with_its_path(given: dict[str, Any], finding: str) -> None:
    with pytest.raises(TableInvalid) as refused:
        read_settings(given, [R1])
    assert refused.value.findings[0].startswith(finding)
