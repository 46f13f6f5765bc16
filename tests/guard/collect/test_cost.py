"""Cost evidence: a price, the time the load was on a side, and what that side produced in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import CollectError, find
from tests.guard.collect.scripted import CUT, ScriptedServer, StartScripted, delta, finish, good, target_of

PRICES = """\
schema: infercrane.prices/v1
currency: EUR
date: 2026-11-30
source: invoice of November
prices:
  - {provider: local, accelerator: host, per_gpu_hour: 3.6}
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    return path


async def measure(prices: Path, candidate: ScriptedServer, baseline: ScriptedServer, **given: Any) -> dict[str, Any]:
    """Envelope, header and lines, by role."""
    collector = find("cost")
    plan = collector.plan({"prices": prices, "requests": 8, "concurrency": 2, "warmup": 1, **given})
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    show = lambda label, done, total: None  # noqa: E731
    paths = await collector.collect(*sides, out=prices.parent / "out", plan=plan, progress=show)
    found: dict[str, Any] = {}
    for path in paths:
        envelope = json.loads(path.read_bytes())
        raw = path.with_name(envelope["files"][0]["path"]).read_text().splitlines()
        found[envelope["role"]] = (envelope, *(json.loads(line) for line in raw))
    return found


async def test_header_has_the_price_and_its_date(prices: Path, scripted: StartScripted) -> None:
    _, header, *_ = (await measure(prices, await scripted(), await scripted()))["candidate"]
    assert header["schema"] == "infercrane.cost/v1"
    assert (header["currency"], header["price_date"], header["price_source"]) == (
        "EUR",
        "2026-11-30",
        "invoice of November",
    )
    assert (header["price_per_gpu_hour"], header["gpu_count"], header["idle_included"]) == (3.6, 1, False)


async def test_a_side_is_charged_for_its_own_time(prices: Path, scripted: StartScripted) -> None:
    slow = await scripted(script=lambda number, body: [0.03, *good()])
    found = await measure(prices, slow, await scripted())
    assert found["candidate"][1]["duration_s"] >= 0.12
    assert found["baseline"][1]["duration_s"] < found["candidate"][1]["duration_s"]


async def test_tokens_and_good_requests_are_counted(prices: Path, scripted: StartScripted) -> None:
    broken = await scripted(script=lambda number, body: [CUT] if number % 2 else good())
    found = await measure(prices, await scripted(), broken)
    _, _, *lines = found["candidate"]
    assert {(line["in_tokens"], line["out_tokens"], line["good"], line["outcome"]) for line in lines} == {
        (30, 3, True, "complete")
    }
    assert len(lines) == 8
    failed = [line for line in found["baseline"][2:] if line["outcome"] != "complete"]
    assert failed
    assert not any(line["good"] or "out_tokens" in line for line in failed)


async def test_good_is_within_the_objectives(prices: Path, scripted: StartScripted) -> None:
    slow = await scripted(script=lambda number, body: [0.3, *good()])
    found = await measure(prices, slow, await scripted(), requests=2, slo_ttft_s=0.25, slo_tpot_s=1.0)
    assert {line["good"] for line in found["candidate"][2:]} == {False}
    assert {line["good"] for line in found["baseline"][2:]} == {True}
    assert found["candidate"][0]["slo"] == {"ttft_s": 0.25, "tpot_s": 1.0}


async def test_an_answer_of_one_token_has_no_time_per_token_to_miss(prices: Path, scripted: StartScripted) -> None:
    short = await scripted(script=lambda number, body: [delta(content="a"), finish()])
    found = await measure(prices, short, short, slo_tpot_s=0.000001)
    assert all(line["good"] for line in found["candidate"][2:])


async def test_a_busy_replica_is_charged_without_idle_time(prices: Path, scripted: StartScripted) -> None:
    slow = await scripted(script=lambda number, body: [0.05, *good()])
    envelope, header, *_ = (await measure(prices, slow, slow))["candidate"]
    assert header["idle_included"] is False
    assert header["utilisation"] > 0.5
    assert (envelope["scenario"]["load_model"], envelope["scenario"]["concurrency"]) == ("closed", 2)


async def test_at_the_rate_of_the_traffic_waiting_is_charged_too(prices: Path, scripted: StartScripted) -> None:
    """8 requests at 16 a second take 0.5 s, and 3.6 an hour is 0.001 a second."""
    quick, slow = await scripted(), await scripted(script=lambda number, body: [0.05, *good()])
    found = await measure(prices, quick, slow, rate=16.0)
    for envelope, header, *lines in found.values():
        assert header["idle_included"] is True
        assert header["duration_s"] >= 0.5
        assert (envelope["scenario"]["load_model"], envelope["scenario"]["rate"]) == ("open", 16.0)
        assert "concurrency" not in envelope["scenario"]
        assert len(lines) == 8
    assert found["candidate"][1]["utilisation"] < found["baseline"][1]["utilisation"]
    for item in load_evidence(prices.parent / "out").items:
        assert item.record.gpu_cost == pytest.approx(0.001 * item.record.duration_s)
        assert item.record.gpu_cost / item.record.good_requests >= 0.0005 / 8


async def test_a_replica_that_cannot_keep_up_is_charged_until_it_has_answered(
    prices: Path, scripted: StartScripted
) -> None:
    slow = await scripted(script=lambda number, body: [0.1, *good()])
    _, header, *_ = (await measure(prices, slow, await scripted(), rate=100.0))["candidate"]
    assert header["duration_s"] >= 0.4
    assert header["utilisation"] > 0.5
    assert slow.most_open == 2


async def test_without_a_price_nothing_is_asked(prices: Path, scripted: StartScripted) -> None:
    prices.write_text(PRICES.replace("host", "H100"))
    server = await scripted()
    with pytest.raises(CollectError, match="no price of accelerator 'host'"):
        await measure(prices, server, server)
    assert server.asked == []


async def test_max_cost_ends_the_run(prices: Path, scripted: StartScripted) -> None:
    """Both replicas at 3.6 an hour: 0.0006 pays for 0.3 s."""
    slow = await scripted(script=lambda number, body: [0.1, *good()])
    with pytest.raises(CollectError, match="not finished for max_cost"):
        await measure(prices, slow, slow, max_cost=0.0006)


def test_a_price_file_must_be_given() -> None:
    assert find("cost").needs == ("prices",)
    with pytest.raises(CollectError, match="prices must be given"):
        find("cost").plan({})
