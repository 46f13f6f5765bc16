"""The published schemas are those of today, and what the guard reads and writes conforms to them."""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from docs.generate import DOCS, schemas
from pulumi_infercrane.guard import Ledger, bootstrap, load_policy, policy, rollback
from pulumi_infercrane.guard.admission.change import NEEDS
from pulumi_infercrane.guard.evidence import window
from pulumi_infercrane.guard.rollout import plan as rollout
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.guard.schemas import names, schema_of
from pulumi_infercrane.guard.trust import store
from tests.guard.rollout import conftest as traffic

WORKLOAD = "sha256:" + "a" * 64
HEADER = {
    "tool_version": "0.1",
    "revision_digest": "sha256:" + "b" * 64,
    "planned": 1,
    "started_at": "2026-11-30T04:00:00Z",
    "ended_at": "2026-11-30T04:02:00Z",
}
PRICED = {"currency": "USD", "price_source": "list", "price_date": "2026-11-01", "price_per_gpu_hour": 2.5}
OWN = {
    "replay": [
        {"workload_digest": WORKLOAD, "greedy": True, "similarity": "words"},
        {"id": "1", "outcome": "complete", "out_tokens": 8, "ttft_s": 0.1, "e2e_s": 0.5, "similarity": 0.9},
    ],
    "reliability": [
        {
            "duration_s": 1800.0,
            "crashes": 0,
            "cold_starts_s": [12.5],
            "drain": {"streams_open": 4, "streams_completed": 4},
        },
        {"id": "1", "start_s": 0.0, "outcome": "idle_timeout"},
    ],
    "cost": [
        {**PRICED, "gpu_count": 1, "duration_s": 3600, "idle_included": False},
        {"id": "1", "outcome": "complete", "in_tokens": 30, "out_tokens": 48, "good": True},
    ],
}


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(name))


def errors(name: str, document: Any) -> list[str]:
    return [error.message for error in validator(name).iter_errors(document)]


def lines_of(text: str) -> Iterable[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", names())
def test_a_published_schema_is_the_one_of_today(name):
    assert (DOCS / "schemas" / f"{name}.json").read_text() == schemas()[f"{name}.json"], "run python docs/generate.py"
    Draft202012Validator.check_schema(schema_of(name))


def test_nothing_else_is_published():
    assert {path.name for path in (DOCS / "schemas").iterdir()} == set(schemas())


def test_envelopes_and_raw_files_conform(folder):
    folder.every_kind()
    for path in folder.root.glob("*.evidence.json"):
        assert errors("envelope", json.loads(path.read_text())) == []
    for kind in known_kinds():
        for path in folder.root.glob(f"*.{kind}.jsonl"):
            assert [found for line in lines_of(path.read_text()) if (found := errors(kind, line))] == []


@pytest.mark.parametrize("kind", sorted(OWN))
def test_lines_of_our_other_formats_conform(kind):
    header, line = OWN[kind]
    assert errors(kind, {"schema": f"infercrane.{kind}/v1", **HEADER, **header}) == []
    assert errors(kind, line) == []
    assert errors(kind, {"schema": "infercrane.tarot/v1", **HEADER, **header})
    assert errors(kind, {key: value for key, value in line.items() if key != "id"})


def test_every_kind_of_decision_and_the_ledger_conform(folder, tmp_path):
    folder.both()
    asked = {"service": "chat", "stack": "dev", "as_of": "2026-11-30T05:00:00Z"}
    opened = load_policy(folder.policy + "bootstrap: true\n")
    made = [
        folder.decide(),
        folder.decide(policy=folder.policy + "canary: {}\n"),
        bootstrap(opened, candidate=folder.candidate, **asked),
        rollback(target=folder.baseline, active=folder.candidate, reason="slow", policy_digest=opened.digest, **asked),
    ]
    folder.quality("candidate", [0.0] * 60)
    made.append(folder.decide())
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for decision in made:
        assert errors("decision", json.loads(decision.canonical)) == []
        ledger.append(decision.record)
    assert [errors("ledger", line) for line in lines_of(ledger.path.read_text())] == [[]] * len(made)


def test_decisions_on_traffic_and_the_windows_behind_them_conform():
    last = traffic.pair(n=1000, weight=25, begin=-20, end=-10)
    promoted = traffic.step(last, weight=25, started_at=traffic.minutes(-20), as_of=traffic.minutes(-10))
    after = traffic.alone(failed=80, end=5)
    asked = {"promoted": promoted.record, "started_at": traffic.minutes(0), "as_of": traffic.minutes(5)}
    for decision in (promoted, traffic.step(), traffic.watched(last, after, **asked)):
        assert errors("decision", json.loads(decision.canonical)) == []
    unstreamed = traffic.window(traffic.binding(traffic.NEW, 100, [0.1, 0.2], ttft_s=[0.1, None]))
    for document in (last, after, unstreamed):
        assert errors("window", document) == []
    assert errors("window", after | {"extra": 1})
    assert errors("window", traffic.window(traffic.binding(traffic.NEW, 100, client_faults={"500": 1})))


def test_the_window_schema_has_the_fields_that_are_read():
    defs = schema_of("window")["$defs"]
    assert set(schema_of("window")["properties"]) == window._WINDOW_KEYS
    assert set(defs["WindowBinding"]["properties"]) == window._BINDING_KEYS
    assert set(defs["WindowFailures"]["properties"]) == set(window.ERROR_CLASSES)


@pytest.mark.parametrize("name", ["policy.md", "canary.md"])
def test_the_policy_of_the_documentation_conforms(name):
    page = (DOCS / name).read_text()
    shown = page.split("```yaml\n")[1].split("```")[0]
    assert errors("policy", yaml.safe_load(shown)) == []


def test_the_policy_schema_has_the_keys_that_are_read():
    defs = schema_of("policy")["$defs"]
    assert set(schema_of("policy")["properties"]) == set(policy._KEYS)
    assert set(defs["PolicyRule"]["properties"]) == set(policy._RULE_KEYS)
    assert set(defs["PolicyByChange"]["properties"]) == set(NEEDS)
    assert set(defs["PolicySlo"]["properties"]) == set(policy._SLO_KEYS)
    assert set(defs["PolicyWaiver"]["properties"]) == set(policy._WAIVER_KEYS)
    assert set(defs["PolicyTrust"]["properties"]) == set(store._KEYS)
    assert set(defs["TrustedKey"]["properties"]) == set(store._KEY_KEYS)
    assert set(defs["PolicyCanary"]["properties"]) == set(rollout._CANARY_KEYS)
    assert set(defs["PolicyPostPromotion"]["properties"]) == set(rollout._POST_PROMOTION_KEYS)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("envelope", {"schema": "infercrane.evidence/v1"}),
        ("policy", {"schema": "infercrane.policy/v1", "required_kinds": [], "rules": []}),
        ("decision", {"schema": "infercrane.decision/v2"}),
        ("quality", {"id": "1", "outcome": "complete", "score": 2}),
    ],
)
def test_what_is_wrong_does_not_conform(name, document):
    assert errors(name, document)
