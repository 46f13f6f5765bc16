"""Decisions on the reliability and the cost that other tools' files hold."""

import json

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, changed, decision, judged, offer, sample

GPU = {"vendor": "nvidia", "sku": "L40S", "count": 1}
PRICE = {"price": {"currency": "USD", "date": "2026-11-28", "source": "cloud list price"}}
LOADED = {"scenario": {"id": "chat-short", "concurrency": 2}}
COST = "id: cost.per_million_output_tokens, margin: 0.10"


@pytest.fixture
def on_gpus(folder, subject_of):
    folder.subjects = {
        role: subject_of(name, accelerator=GPU) for role, name in (("candidate", "r42"), ("baseline", "r41"))
    }
    return folder


def steady(role, tokens=45_000):
    """A counter that grows by so many tokens in two minutes."""
    series = counter(int(role == "candidate"))
    series["values"] = [[time, str(tokens * index // 4)] for index, (time, _) in enumerate(series["values"])]
    return series


def counter(index):
    """One replica's counter, as Prometheus answered."""
    return sample("prometheus", "generation_tokens.json")["data"]["result"][index]


def spend(folder, role, revision, gpu_cost, series):
    """Two minutes of an allocation, with the counter of its tokens over the same time."""
    counters = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}

    def priced(document):
        total = round(gpu_cost + 0.002, 5)
        document["data"][0][f"chat-{revision}"].update(gpuCost=gpu_cost, totalCost=total)

    offer(
        folder,
        "opencost",
        "cost",
        {"primary": changed("opencost", "gpu_allocation.json", priced), "details": json.dumps(counters).encode()},
        role=role,
        select={"name": f"chat-{revision}"},
        tools={"details": "prometheus"},
        envelope=PRICE | LOADED,
    )


@pytest.mark.parametrize(
    ("gpu_cost", "verdict"), [(0.0505, "promote"), (0.054, "insufficient_evidence"), (0.07, "reject")]
)
def test_what_a_million_tokens_cost_decides(on_gpus, gpu_cost, verdict):
    spend(on_gpus, "baseline", "r41", 0.05, steady("baseline"))
    spend(on_gpus, "candidate", "r42", gpu_cost, steady("candidate"))
    assert decision(on_gpus, COST, kind="cost").verdict == verdict


@pytest.mark.parametrize(("gpu_cost", "verdict"), [(0.09, "promote"), (0.14, "reject")])
def test_counters_as_prometheus_answered_them_decide(on_gpus, gpu_cost, verdict):
    """65,000 tokens over a restart for 0.05 USD, and 120,000 for about twice as much."""
    spend(on_gpus, "baseline", "r41", 0.05, counter(2))
    spend(on_gpus, "candidate", "r42", gpu_cost, counter(1))
    found = decision(on_gpus, COST, kind="cost")
    assert found.verdict == verdict
    (rule,) = found.record["rules"]
    ratio = (gpu_cost + 0.002) / 120_000 / (0.052 / 65_000)
    assert rule["estimate"] == pytest.approx(ratio, rel=1e-4)


def test_a_revision_without_traffic_has_no_price_per_token(on_gpus):
    spend(on_gpus, "baseline", "r41", 0.05, counter(0))
    spend(on_gpus, "candidate", "r42", 0.05, counter(1))
    assert decision(on_gpus, COST, kind="cost").verdict == "insufficient_evidence"


def test_tokens_without_money_decide_nothing(on_gpus):
    for role, series in (("baseline", 2), ("candidate", 1)):
        pod = counter(series)["metric"]["pod"]
        one = {"status": "success", "data": {"resultType": "matrix", "result": [counter(series)]}}
        offer(on_gpus, "prometheus", "cost", {"primary": json.dumps(one).encode()}, role=role, select={"pod": pod})
    found = decision(on_gpus, COST, kind="cost")
    assert judged(found, "cost.per_million_output_tokens")[:2] == ("unknown", ["cost_incomplete"])


def test_money_without_tokens_decides_nothing(on_gpus):
    for role, revision in (("baseline", "r41"), ("candidate", "r42")):
        document = changed("opencost", "gpu_allocation.json", lambda d, name=role: d.update(note=name))
        about = {"select": {"name": f"chat-{revision}"}, "envelope": PRICE | LOADED}
        offer(on_gpus, "opencost", "cost", {"primary": document}, role=role, **about)
    found = decision(on_gpus, COST, kind="cost")
    assert judged(found, "cost.per_million_output_tokens")[:2] == ("unknown", ["no_evidence"])


def test_spend_beside_an_accelerator_decides_nothing(on_gpus):
    (one,) = [one for one in json.loads((SAMPLES / "litellm" / "sample.json").read_text()) if one["kind"] == "cost"]
    offer(on_gpus, "litellm", "cost", one["parts"], envelope=one["envelope"] | PRICE)
    found = decision(on_gpus, COST, kind="cost")
    assert judged(found, "cost.per_million_output_tokens")[:2] == ("unknown", ["cost_incomplete"])


def test_an_allocation_without_gpu_cost_is_incomplete(on_gpus):
    window = {"window": {"started_at": "2023-07-12T11:00:00Z", "ended_at": "2023-07-19T11:03:00Z"}}
    parts = {"primary": "allocation-example-output.json"}
    offer(on_gpus, "opencost", "cost", parts, select={"name": "opencost"}, envelope=PRICE | window)
    found = decision(on_gpus, COST, kind="cost", as_of="2023-07-19T12:00:00Z")
    assert judged(found, "cost.per_million_output_tokens")[:2] == ("unknown", ["cost_incomplete"])


@pytest.mark.parametrize("tool", ["inference-perf", "llm-d", "k6", "locust", "litellm", "otel"])
@pytest.mark.parametrize(("limit", "verdict"), [(0.01, "reject"), (0.2, "insufficient_evidence")])
def test_failures_over_seconds_reject_and_never_promote(folder, tool, limit, verdict):
    manifest = json.loads((SAMPLES / tool / "sample.json").read_text())
    (one,) = [one for one in manifest if one["kind"] == "reliability"]
    about = {"tool_version": one["tool_version"], "envelope": one.get("envelope")}
    offer(folder, tool, "reliability", one["parts"], **about)
    rule = f"id: reliability.error_fraction, limit: {limit}"
    assert decision(folder, rule, kind="reliability").verdict == verdict


def test_half_an_hour_of_few_failures_is_promoted(folder):
    def soaked(document):
        metrics = document["metrics"]
        document["state"]["testRunDurationMs"] = 1_800_000
        metrics["http_reqs"]["values"].update(count=9_000, rate=5)
        metrics["http_req_failed"]["values"].update(passes=9, fails=8_991, rate=0.001)
        metrics["http_req_failed"]["thresholds"]["rate<0.01"]["ok"] = True

    window = {"window": {"started_at": "2026-11-30T03:30:00Z", "ended_at": "2026-11-30T04:00:00Z"}}
    soak = changed("k6", "k6_1.1.0_handleSummary.json", soaked)
    offer(folder, "k6", "reliability", {"primary": soak}, envelope=window)
    assert decision(folder, "id: reliability.error_fraction, limit: 0.005", kind="reliability").verdict == "promote"
