"""Prometheus: only a bare counter over time says what it counts; nothing is never zero."""

import pytest

from tests.guard.evidence.readers.offering import changed, offer


def read(folder, primary="generation_tokens.json", select=None, kind="cost"):
    return offer(folder, "prometheus", kind, {"primary": primary}, select=select)


def test_tokens_are_the_increase_of_the_counters_of_one_revision(folder):
    record = read(folder, select={"revision": "rev-42"}).record
    assert record.output_tokens == 120_000 + 20_000 + 5_000 + 20_000 + 20_000  # the second replica restarted
    assert (record.duration_s, record.gpu_cost, record.currency) == (120, None, "")


def test_m1_an_empty_answer_is_no_evidence(folder):
    assert read(folder, "prom2.42_empty.json").problem.code == "no_evidence"


def test_m1_an_error_is_no_evidence(folder):
    problem = read(folder, "prom2.42_error.json").problem
    assert problem.code == "no_evidence" and "unclosed left parenthesis" in problem.detail


def test_m1_nan_is_not_zero(folder):
    assert read(folder, "prom2.42_nan_ratio.json").problem.code == "schema_unknown"
    nan = changed(
        "prometheus", "generation_tokens.json", lambda d: d["data"]["result"][0]["values"][2].__setitem__(1, "NaN")
    )
    assert str(read(folder, nan, {"revision": "rev-41"}).problem) == "non_finite: values: NaN is no count"


def test_m1_no_traffic_is_no_tokens_rather_than_nothing(folder):
    assert read(folder, select={"revision": "rev-41"}).record.output_tokens == 0


def test_m2_several_series_are_told_apart_by_label_never_by_place(folder):
    assert read(folder).problem.code == "ambiguous_run"
    assert read(folder, select={"revision": "rev-42", "pod": "b"}).record.output_tokens == 120_000
    assert (
        str(read(folder, select={"revision": "rev-9"}).problem) == "bad_value: no series has the labels revision=rev-9"
    )


def test_one_series_twice_is_not_two_replicas(folder):
    twice = changed(
        "prometheus", "generation_tokens.json", lambda d: d["data"]["result"].append(d["data"]["result"][-1])
    )
    problem = read(folder, twice, {"revision": "rev-42"}).problem
    assert str(problem) == "counters_disagree: two series have the same labels"


@pytest.mark.parametrize("name", ["prom2.42_p95_ttft.json", "prom2.42_scalar.json", "prom2.42_vector_rate.json"])
def test_m3_quantiles_and_single_values_are_refused(folder, name):
    assert read(folder, name, {"revision": "rev-42"}).problem.code == "schema_unknown"


def test_a_range_of_rates_does_not_say_what_it_is(folder):
    problem = read(folder, "prom2.42_range.json", {"revision": "rev-42"}).problem
    assert problem.code == "schema_unknown" and "no known counter" in problem.detail


@pytest.mark.parametrize("kind", ["benchmark", "reliability", "replay", "quality"])
def test_it_gives_nothing_else(folder, kind):
    assert read(folder, kind=kind).problem.code == "tool_unknown"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([[1796011200, "1"]], "insufficient_n"),
        ([], "insufficient_n"),
        ([[1796011230, "1"], [1796011200, "2"]], "inconsistent"),
        ([[1796011200, "1"], [1796011200, "2"]], "inconsistent"),
        ([[1796011200, "1"], [1796021200, "2"]], "inconsistent"),
        ([[1796011200, 1], [1796011230, "2"]], "bad_value"),
        ([[1796011200, "-1"], [1796011230, "2"]], "bad_value"),
        ([[1796011200, "1e30"], [1796011230, "2"]], "non_finite"),
        ([[1796011200, "+Inf"], [1796011230, "2"]], "non_finite"),
        ([["now", "1"], [1796011230, "2"]], "bad_value"),
        ([[1796011200, "one"], [1796011230, "2"]], "bad_value"),
        ([[1e300, "1"], [1.1e300, "2"]], "bad_value"),
        ([[10**400, "1"], [10**400 + 1, "2"]], "bad_value"),
        ([[1e15, "1"], [2e15, "2"]], "bad_value"),
        ([7], "bad_value"),
        (None, "bad_value"),
    ],
)
def test_values_that_no_counter_has_are_refused(folder, values, code):
    document = changed("prometheus", "generation_tokens.json", lambda d: d["data"]["result"][0].update(values=values))
    assert read(folder, document, {"revision": "rev-41"}).problem.code == code
