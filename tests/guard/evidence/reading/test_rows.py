"""Requests are added one by one and come out as columns."""

import math

import pytest

from pulumi_infercrane.guard.evidence.reading.rows import Rows, mean, tpot
from pulumi_infercrane.guard.reasons import Inadmissible

FINE = (0.05, 0.01, 0.5, 30, 46)


def test_columns_keep_the_order_of_the_requests():
    rows = Rows()
    rows.add(FINE)
    rows.fail("503")
    rows.add((0.06, math.nan, 0.6, 31, 1))
    requests = rows.requests()
    assert (list(requests.ok), requests.failed, dict(rows.errors)) == ([1, 0, 1], 1, {"503": 1})
    assert (requests.ttft_s[0], requests.ttft_s[2], list(requests.in_tokens)[::2]) == (0.05, 0.06, [30, 31])
    assert math.isnan(requests.e2e_s[1])
    assert list(requests.seconds("tpot_s")) == [0.01, math.inf]


@pytest.mark.parametrize("bad", [(0.0, 0.01, 0.5), (0.05, -1.0, 0.5), (0.05, 0.01, 600.1)])
@pytest.mark.parametrize(("n", "refused"), [(199, True), (200, False)])
def test_one_impossible_latency_in_two_hundred_is_a_failure_more_are_no_measurement(bad, n, refused):
    rows = Rows()
    rows.add((*bad, 30, 46))
    for _ in range(n - 1):
        rows.add(FINE)
    if refused:
        with pytest.raises(Inadmissible, match="bad_value: 1 of 199"):
            rows.requests()
    else:
        assert rows.requests().failed == 1


@pytest.mark.parametrize("tokens", [(-1, 46), (30, -1), (math.nan, -0.5)])
def test_a_negative_number_of_tokens_is_no_measurement(tokens):
    with pytest.raises(Inadmissible, match="bad_value: a request has a negative number of tokens"):
        Rows().add((0.05, 0.01, 0.5, *tokens))


def test_a_figure_is_there_when_one_request_has_it_or_none_could():
    rows = Rows()
    rows.fail("timeout")
    assert rows.requests().has("ttft_s")
    rows.add((0.05, math.nan, 0.05, 30, 1))
    assert rows.requests().has("tpot_s")
    rows.add((math.nan, math.nan, 0.5, 30, 46))
    assert [rows.requests().has(figure) for figure in ("ttft_s", "tpot_s", "e2e_s")] == [True, False, True]


def test_time_per_token_leaves_out_the_first():
    assert tpot(0.05, 0.5, 46) == pytest.approx(0.01)
    assert math.isnan(tpot(0.05, 0.05, 1))
    assert math.isnan(tpot(0.05, 0.5, math.nan))


def test_means_are_over_what_is_known():
    rows = Rows()
    rows.add(FINE)
    rows.fail("503")
    assert mean(rows.requests().out_tokens) == 46
    assert mean(Rows().requests().out_tokens) is None
