"""What Prometheus reads: counts by revision, statuses of failing answers, histograms that add up."""

import re

import pytest

from pulumi_infercrane.router.histograms import EDGES, Histogram
from pulumi_infercrane.router.metrics import render
from tests.router.client import chat
from tests.router.conftest import R1, Running, eventually
from tests.router.upstream import Call, Upstream, delta, whole


def shown(router: Running) -> str:
    return render(router.parts.relay.routes, router.parts.relay.traffic)


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
async def test_an_answer_with_an_error_is_counted_by_its_status(
    router: Running, upstream: Upstream, status: str
) -> None:
    async def fail(call: Call) -> None:
        await call.send(whole({"error": {"message": "no"}}, status))

    upstream.script = fail
    async with await router.client() as client:
        await client.ask(chat(False))
    await eventually(lambda: bool(router.outcomes()))
    labels = f'{{service="chat",revision="{R1}",status="{status[:3]}"}}'
    assert f"infercrane_router_http_errors_total{labels} 1\n" in shown(router)


async def test_durations_are_histograms_of_the_requests_there_were(router: Running, upstream: Upstream) -> None:
    async def answer(call: Call) -> None:
        await call.stream(delta())
        await call.end_stream()

    async with await router.client() as client:
        await client.ask(chat(False))
        upstream.script = answer
        await client.ask(chat())
    await eventually(lambda: sum(router.outcomes().values()) == 2)
    text = shown(router)
    assert re.findall(r'request_seconds_bucket{[^}]*le="\+Inf"} (\d+)', text) == ["2"]
    assert re.findall(r"request_seconds_count{[^}]*} (\d+)", text) == ["2"]
    assert re.findall(r"ttft_seconds_count{[^}]*} (\d+)", text) == ["1"]


def test_a_bucket_holds_what_is_at_most_its_edge() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.005, 0.0051, EDGES[-1] + 1):
        histogram.add(seconds)
    cumulative = dict(histogram.cumulative())
    assert (cumulative["0.005"], cumulative["0.01"], cumulative["600"], cumulative["+Inf"]) == (2, 3, 3, 4)
    assert (histogram.count, histogram.sum) == (4, pytest.approx(EDGES[-1] + 1.0111))
