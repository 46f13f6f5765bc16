"""Quantiles of requests and of summaries: failures are infinitely slow, units are doubted, minima hold."""

import math
import re
from array import array
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.evidence.records import Latency, Requests
from pulumi_infercrane.guard.judging.latency import Quantile, judge_quantile, pooled_seconds
from pulumi_infercrane.guard.judging.rule import Member, Rule, Settings, Sides

SETTINGS = Settings(alpha=0.05, min_duration_s=60.0)


def member(name="run", tool="vllm-bench", version="0.33.0", requests=None, place=None, **record):
    """A run; `place` is group, ordinal and number of its runs."""
    run = place and SimpleNamespace(group=place[0], ordinal=place[1], of=place[2])
    envelope = SimpleNamespace(
        evidence_id=name, primary=SimpleNamespace(tool=tool, tool_version=version), run=run, role="candidate"
    )
    figures = {"attempted": 2000, "failed": 0, "incomplete": 0, "latencies": {}, "requests": requests} | record
    return Member(envelope, SimpleNamespace(**figures))


def detailed(seconds, failed=0, **about):
    """A run that kept every request."""
    n = len(seconds) + failed
    nothing = array("d", [math.nan]) * failed
    column = array("d", seconds) + nothing
    tokens = array("d", [48.0]) * n
    requests = Requests(bytes([1] * len(seconds) + [0] * failed), column, column, column, tokens, tokens)
    return member(requests=requests, attempted=n, failed=failed, **about)


def summary(value, q=0.95, adjusted=False, **about):
    """A run of which the tool wrote one percentile."""
    return member(latencies={"ttft_s": Latency({q: value}, adjusted=adjusted)}, **about)


def judged(candidate, baseline, q=0.95, bound=0.15, least=100, compute=20):
    rule = Rule("benchmark.ttft", "benchmark", True, True, bound, least, compute)
    candidate, baseline = ([one] if isinstance(one, Member) else one for one in (candidate, baseline))
    return judge_quantile(rule, Quantile("ttft_s", q, bound, True, least), Sides((*candidate,), (*baseline,)), SETTINGS)


def outcome(finding):
    return finding.outcome, finding.code


def spread(n, factor=1.0):
    return [factor * math.exp(0.4 * math.sin(7.0 * index)) for index in range(n)]


@pytest.mark.parametrize(("q", "least"), [(0.5, 20), (0.95, 200), (0.99, 1000), (0.94, 167)])
def test_ten_requests_must_lie_beyond_a_quantile(q, least):
    assert Quantile("ttft_s", q, 0.1, hard=True, min_pass=1).form.min_compute == least


# --- every request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "code"), [((300, 19), "insufficient_n"), ((19, 300), "insufficient_n")])
def test_each_side_needs_its_minimum(n, code):
    finding = judged(detailed(spread(n[0])), detailed(spread(n[1])), q=0.5)
    assert outcome(finding) == ("unknown", code)
    assert finding.needs == "about 81 more requests on each side needed"
    assert judged(detailed(spread(300)), detailed(spread(20)), q=0.5).lo is not None


def test_without_any_minimum_one_request_is_needed():
    assert outcome(judged(detailed(spread(50)), detailed([]), q=0.5, least=1, compute=0)) == (
        "unknown",
        "insufficient_n",
    )
    assert judged(detailed([1.0]), detailed([1.0]), q=0.5, least=1, compute=0).outcome == "pass"


def test_requests_are_pooled_in_order_and_runs_without_them_left_out():
    runs = [detailed([3.0, 1.0], failed=1), summary(9.0), detailed([2.0])]
    assert pooled_seconds(runs, "ttft_s") == [1.0, 2.0, 3.0, math.inf]


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize(
    ("factor", "suspect"), [(699.9, False), (700.0, True), (1000.0, True), (1500.0, True), (1500.1, False)]
)
def test_medians_a_thousand_apart_are_milliseconds_against_seconds(factor, suspect, low):
    finding = judged(detailed([1 / factor if low else factor] * 50), detailed([1.0] * 50), q=0.5)
    assert (finding.code == "unit_suspect") == suspect


@pytest.mark.parametrize(
    ("candidate", "baseline"),
    [([1000.0] * 55 + [1e6] * 45, [1.0] * 100), ([1000.0] * 100, [1.0] * 55 + [1000.0] * 45)],
)
def test_the_unit_is_doubted_by_the_medians(candidate, baseline):
    assert judged(detailed(candidate), detailed(baseline)).code == "unit_suspect"


@pytest.mark.parametrize("factor", [1.12, 1.28])
def test_a_ratio_settles_with_about_as_many_requests_as_are_said_to_be_missing(factor):
    few = judged(detailed(spread(200, factor)), detailed(spread(200)), q=0.5, bound=0.2)
    assert few.code == "interval_straddles"
    total = 200 + int(re.search(r"about (\d+) more", few.needs)[1])

    def at(share):
        n = round(total * share)
        return judged(detailed(spread(n, factor)), detailed(spread(n)), q=0.5, bound=0.2).outcome

    assert (at(0.4), at(2.0)) == ("unknown", "pass" if factor < 1.2 else "fail")


def test_a_candidate_of_which_too_much_failed_fails_whatever_the_number():
    finding = judged(detailed(spread(180), failed=20), detailed(spread(200)))
    assert (finding.outcome, finding.estimate) == ("fail", math.inf)


def test_the_requests_of_the_smaller_side_are_those_that_are_missing():
    one = judged(detailed(spread(200, 1.14)), detailed(spread(200)), q=0.5, bound=0.2)
    other = judged(detailed(spread(200, 1.14)), detailed(spread(1000)), q=0.5, bound=0.2, least=600)
    assert one.code == "interval_straddles"
    assert other.needs == "about 400 more requests on each side needed"


def test_no_number_settles_what_may_be_infinitely_better():
    """Resampled, the 95th percentile of a baseline with 19 failures of 400 is infinite two times in five."""
    finding = judged(detailed(spread(400, 1.02)), detailed(spread(381), failed=19), bound=0.0)
    assert (finding.outcome, finding.lo) == ("unknown", 0)
    assert finding.needs.startswith("no practical number")


def test_one_of_three_runs_may_contradict_the_others():
    three = [detailed([1.0] * 300, name="a"), detailed([1.0] * 300, name="b"), detailed([9.0] * 50, name="c")]
    assert judged(three, detailed([1.0] * 300), q=0.5).code == "conflict"


def test_runs_of_a_side_too_short_for_an_interval_contradict_nobody():
    short = [detailed([9.0] * 19, name="short"), detailed([1.0] * 300, name="long")]
    assert judged(short, detailed([1.0] * 300), q=0.5).outcome == "pass"
    long = [detailed([9.0] * 20, name="short"), detailed([1.0] * 300, name="long")]
    assert judged(long, detailed([1.0] * 300), q=0.5).code == "conflict"
    assert judged(detailed([1.0] * 300), long, q=0.5).code == "conflict"


# --- summaries --------------------------------------------------------------------------------------------------


def test_requests_of_one_side_and_a_summary_of_the_other_are_compared_as_summaries():
    for finding in (
        judged(detailed([1.0] * 300), summary(1.0)),
        judged(summary(1.0), detailed([1.0] * 300)),
    ):
        assert (finding.outcome, finding.method) == ("pass", "guard_band")


def test_requests_and_a_summary_of_one_side_are_not_pooled():
    mixed = [detailed([1.0] * 300, name="a"), summary(1.0, name="b")]
    plain = detailed([1.0] * 300)
    for candidate, baseline in ((mixed, plain), (plain, mixed)):
        finding = judged(candidate, baseline)
        assert outcome(finding) == ("unknown", "percentile_of_percentiles")
        assert "cannot be pooled" in finding.detail
        assert finding.needs == "figures of every request (--save-detailed)"


def test_answers_too_short_to_have_the_figure_make_no_quantile():
    requests = detailed([math.nan] * 300).record.requests
    brief = Requests(requests.ok, *[requests.ttft_s] * 3, array("d", [0.0]) * 300, array("d", [0.0]) * 300)
    finding = judged(member(requests=brief, attempted=300), summary(1.0))
    assert outcome(finding) == ("unknown", "no_evidence")


@pytest.mark.parametrize("latencies", [{}, {"ttft_s": Latency({0.5: 1.0})}])
def test_a_percentile_that_was_not_written_is_no_evidence(latencies):
    finding = judged(member(latencies=latencies), summary(1.0))
    assert (outcome(finding), finding.detail) == (("unknown", "no_evidence"), "vllm-bench wrote no ttft_s p95")
    assert finding.needs.startswith("measure with --percentile-metrics")


@pytest.mark.parametrize(
    ("tool", "version", "needs"),
    [
        ("guidellm", "0.6.0", "measure with --outputs json without --sample-requests"),
        ("locust", "2.32", "measure with a tool that writes it"),
    ],
)
def test_what_to_measure_with_is_what_the_tool_can(tool, version, needs):
    assert judged(member(tool=tool, version=version), summary(1.0)).needs == needs


def test_a_tool_without_options_is_asked_for_requests_in_words():
    finding = judged(summary(1.2, tool="locust", version="2.32"), summary(1.0))
    assert finding.needs.endswith("or figures of every request")


def three(values, **of_first):
    """Three runs of one group."""
    first, *rest = (
        {"value": value, "name": str(place), "place": ("g", place, 3)} for place, value in enumerate(values, start=1)
    )
    return [summary(**(first | of_first)), *(summary(**one) for one in rest)]


def test_one_broken_run_breaks_the_baseline():
    assert outcome(judged(three([1.0, 1.01, 1.02]), three([1.0, 1.01, 1.02], failed=100))) == (
        "unknown",
        "baseline_broken",
    )


def test_failures_of_one_run_keep_a_summary_of_answers_from_passing():
    """A fifth of the 100 requests of 2,000 that lie beyond p95 are 20."""
    assert judged(three([1.0, 1.01, 1.02]), three([1.0, 1.01, 1.02])).outcome == "pass"
    assert outcome(judged(three([1.0, 1.01, 1.02], failed=21), three([1.0, 1.01, 1.02]))) == ("unknown", "summary_only")


@pytest.mark.parametrize(("failed", "expected"), [(200, ("pass", "within_margin")), (201, ("unknown", "summary_only"))])
def test_a_fifth_of_what_lies_beyond_may_have_failed(failed, expected):
    assert outcome(judged(summary(1.0, q=0.5, failed=failed), summary(1.0, q=0.5), q=0.5)) == expected


def test_what_counts_failures_itself_leaves_none_out():
    assert judged(summary(1.0, adjusted=True, failed=60), summary(1.0)).outcome == "pass"
    assert judged(detailed([1.0] * 290, failed=10), summary(1.0)).outcome == "pass"


@pytest.mark.parametrize(("failed", "estimate"), [(99, 1.0), (100, math.inf)])
def test_a_quantile_is_infinite_when_that_share_failed(failed, estimate):
    assert judged(summary(1.0, failed=failed), summary(1.0)).estimate == estimate


def in_turn(factor, failed=0):
    """Three runs of one side, measured in turn with those of the other."""
    return [
        detailed(spread(300, factor * (1 + 0.001 * run)), failed, name=f"{factor}-{run}", place=("g", run, 3))
        for run in (1, 2, 3)
    ]


@pytest.mark.parametrize(("factor", "expected"), [(1.5, "fail"), (1.0, "pass"), (0.6, "pass")])
def test_slower_is_worse_in_repeated_runs_too(factor, expected):
    finding = judged(in_turn(factor), in_turn(1.0))
    assert (finding.method, finding.outcome) == ("repeated_runs", expected)


def test_repeated_runs_against_broken_ones_are_no_ratio():
    assert outcome(judged(in_turn(1.0), in_turn(1.0, failed=60))) == ("unknown", "baseline_broken")


@pytest.mark.parametrize(("least", "method"), [(20, "repeated_runs"), (19, "bootstrap_ratio")])
def test_runs_are_repeats_when_each_of_them_has_enough(least, method):
    short = [detailed(spread(n), name=f"b-{run}", place=("g", run, 3)) for run, n in ((1, 300), (2, least), (3, 300))]
    assert judged(in_turn(1.0), short, compute=20).method == method
