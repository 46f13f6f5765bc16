"""OpenCost: money of one allocation; its currency from the envelope, its tokens from another file."""

import json

import pytest

from tests.guard.evidence.readers.offering import changed, offer

PRICE = {"currency": "USD", "date": "2026-11-28", "source": "cloud list price"}
CPU = {"vendor": "cpu", "sku": "host", "count": 1}


@pytest.fixture(autouse=True)
def _on_a_gpu(folder, subject_of):
    folder.subjects["candidate"] = subject_of("r42", accelerator={"vendor": "nvidia", "sku": "L40S", "count": 1})


def read(folder, primary="gpu_allocation.json", select=None, price=PRICE, **more):
    parts = {"primary": primary} | more.pop("parts", {})
    envelope = ({"price": price} if price else {}) | more.pop("envelope", {})
    return offer(folder, "opencost", "cost", parts, select=select or {"name": "chat-r42"}, envelope=envelope, **more)


def test_an_allocation_costs_gpu_and_other_parts(folder):
    record = read(folder).record
    assert (record.gpu_cost, record.other_cost, record.currency) == (pytest.approx(0.049), pytest.approx(0.003), "USD")
    assert (record.price_date, record.price_source) == ("2026-11-28", "cloud list price")
    assert (record.output_tokens, record.per_million_output_tokens) == (None, None)


def test_c1_the_currency_is_never_guessed(folder):
    assert str(read(folder, price=None).problem) == (
        "cost_incomplete: opencost writes no currency and no price date: state `price` in the envelope"
    )


def test_c2_cost_covers_start_to_end_not_the_window(folder):
    assert read(folder).record.duration_s == 120  # the window is 150 s


@pytest.mark.parametrize("name", ["kube-system", "opencost", "prometheus"])
def test_c3_a_gpu_service_without_gpu_cost_is_incomplete(folder, name):
    window = {"window": {"started_at": "2023-07-12T11:00:00Z", "ended_at": "2023-07-19T11:03:00Z"}}
    piece = read(folder, "allocation-example-output.json", {"name": name}, envelope=window)
    assert str(piece.problem) == f"cost_incomplete: {name}: gpuCost is 0 for a service on an accelerator"


def test_a_service_on_processors_has_no_gpu_cost(folder, subject_of):
    folder.subjects["candidate"] = subject_of("r42", accelerator=CPU)
    window = {"window": {"started_at": "2023-07-12T11:00:00Z", "ended_at": "2023-07-19T11:03:00Z"}}
    record = read(folder, "allocation-example-output.json", {"name": "kube-system"}, envelope=window).record
    assert (record.gpu_cost, record.other_cost) == (0, pytest.approx(1.52743))
    assert record.duration_s == 7 * 86400 - 46


def test_c4_idle_cost_is_an_allocation_like_others(folder):
    idle = changed(
        "opencost", "gpu_allocation.json", lambda d: d["data"][0].update(__idle__=d["data"][0].pop("chat-r41"))
    )
    assert read(folder, idle).record.gpu_cost == pytest.approx(0.049)
    assert read(folder, idle, {"name": "__idle__"}).record.gpu_cost == pytest.approx(0.059)


def test_one_of_several_allocations_is_named(folder):
    piece = offer(folder, "opencost", "cost", {"primary": "gpu_allocation.json"}, envelope={"price": PRICE})
    assert str(piece.problem) == (
        "ambiguous_run: 2 of allocations: name one with files[].select name (chat-r41, chat-r42)"
    )


def test_one_of_several_windows_is_counted(folder):
    two = changed("opencost", "gpu_allocation.json", lambda d: d["data"].append(d["data"][0]))
    assert read(folder, two).problem.code == "ambiguous_run"
    assert read(folder, two, {"name": "chat-r42", "index": 1}).problem is None
    assert read(folder, two, {"name": "chat-r42", "index": 2}).problem.code == "bad_value"


def test_tokens_come_from_a_prometheus_counter_of_the_same_time(folder):
    tokens = changed(
        "prometheus", "generation_tokens.json", lambda d: d["data"].update(result=d["data"]["result"][1:2])
    )
    record = read(folder, parts={"details": tokens}, tools={"details": "prometheus"}).record
    assert record.output_tokens == 120_000
    assert record.per_million_output_tokens == pytest.approx(0.052 / 0.12)


def test_tokens_of_another_length_of_time_are_refused(folder):
    def shorter(document):
        document["data"]["result"] = document["data"]["result"][1:2]
        document["data"]["result"][0]["values"].pop()

    tokens = changed("prometheus", "generation_tokens.json", shorter)
    piece = read(folder, parts={"details": tokens}, tools={"details": "prometheus"})
    assert str(piece.problem) == "inconsistent: details: tokens of 90 s beside the cost of 120 s"


def test_details_that_count_no_tokens_are_refused(folder):
    piece = read(folder, parts={"details": "gpu_allocation.json"}, tools={"details": "opencost"})
    assert piece.problem.code == "ambiguous_run"  # the other allocation file is not selected from
    one = changed("opencost", "gpu_allocation.json", lambda d: d["data"][0].pop("chat-r41"))
    assert (
        str(read(folder, parts={"details": one}).problem) == "cost_incomplete: details: opencost counts no tokens here"
    )
    assert read(folder, parts={"details": b"{}"}, tools={"details": "wrk"}).problem.code == "tool_unknown"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"totalCost": 0.06}, "inconsistent"),
        ({"totalCost": "0.052"}, "bad_value"),
        ({"cpuCost": -0.002}, "bad_value"),
        ({"gpuCost": None}, "bad_value"),
        ({"end": "2026-11-30T04:00:00Z"}, "bad_value"),
        ({"end": "2026-11-30T04:02:00"}, "clock"),
        ({"end": "2026-12-30T04:02:00Z"}, "inconsistent"),
        ({"start": "soon"}, "bad_value"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    allocation = changed("opencost", "gpu_allocation.json", lambda d: d["data"][0]["chat-r42"].update(change))
    assert read(folder, allocation).problem.code == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, "schema_unknown"),
        ({"code": 200, "data": {}}, "schema_unknown"),
        ({"code": 200, "data": [None]}, "schema_unknown"),
        ({"code": 200, "data": [{"a": 1}]}, "schema_unknown"),
        ({"code": 200, "data": []}, "no_evidence"),
        ({"code": 200, "data": [{}]}, "no_evidence"),
        ({"code": 400, "data": []}, "no_evidence"),
    ],
)
def test_an_answer_without_allocations_is_refused(folder, document, code):
    assert read(folder, json.dumps(document).encode()).problem.code == code


@pytest.mark.parametrize("price", [{"currency": "$"}, {"currency": "usd"}, {"date": "yesterday"}, {"rate": 1}])
def test_a_price_must_be_well_formed(folder, price):
    assert read(folder, price=PRICE | price).problem.code in ("bad_value", "schema_unknown")
