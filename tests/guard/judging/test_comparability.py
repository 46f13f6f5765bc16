"""Two load runs are compared when they had the same work; a subject that differs is what is asked about."""

from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.judging.comparability import load_problem, version_problem
from pulumi_infercrane.guard.judging.rule import Member, Sides


def run(tool="vllm-bench", version="0.33.0", tokenizer="t", hits=None, before=(0, 0), scenario=(), **record):
    """A run; `hits` of 100 prompts were cached during it."""
    names = ("id", "dataset_digest", "load_model", "streaming", "path", "replicas", "cache", "random_seed")
    declared = dict.fromkeys((*names, "rate", "concurrency")) | dict(scenario)
    figures = {"attempted": 100, "failed": 0, "out_tokens": 48.0, "in_tokens": 30.0}
    about = dict.fromkeys(("load_model", "streaming", "token_source", "rate", "concurrency")) | figures | record
    envelope = SimpleNamespace(
        primary=SimpleNamespace(tool=tool, tool_version=version),
        scenario=SimpleNamespace(**declared),
        subject=SimpleNamespace(tokenizer_digest=tokenizer),
        probes=hits if isinstance(hits, SimpleNamespace) else (hits is not None and probes(before, hits, 100)) or None,
    )
    return Member(envelope, SimpleNamespace(**about))


def probes(before, hits, queries):
    first = before and SimpleNamespace(hits=before[0], queries=before[1])
    last = SimpleNamespace(hits=(before or (0,))[0] + hits, queries=(before or (0, 0))[1] + queries)
    return SimpleNamespace(before=SimpleNamespace(prefix_cache=first), after=SimpleNamespace(prefix_cache=last))


def problem(candidate, baseline):
    candidate, baseline = ((one,) if isinstance(one, Member) else tuple(one) for one in (candidate, baseline))
    found = load_problem(Sides(candidate, baseline))
    return found and (found.code, found.detail)


# --- tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "version", "detail"),
    [
        ("vllm-bench", "0.33.1", None),
        ("vllm-bench", "0.34.0", "measured with vllm-bench 0.33 and vllm-bench 0.34"),
        ("aiperf", "0.33.0", "measured with aiperf 0.33 and vllm-bench 0.33"),
    ],
)
def test_one_tool_in_one_version_measures_both(tool, version, detail):
    found = version_problem([run(), run(tool, version)])
    assert (found and (found.code, found.detail)) == (detail and ("version_mismatch", detail))
    assert problem(run(tool, version), run()) == (detail and ("version_mismatch", detail))


def test_nobody_measured_with_nothing():
    assert version_problem([]) is None


# --- workload ---------------------------------------------------------------------------------------------------


def test_every_run_of_a_side_must_be_at_the_operating_point():
    same, other = run(concurrency=8.0), run(concurrency=16.0)
    assert problem([same, same], same) is None
    assert problem([same, other], same) == ("not_comparable", "concurrency differs: 16 against 8")


@pytest.mark.parametrize(("rate", "differs"), [(10.0, False), (10.2, False), (10.21, True), (9.8, True), (None, True)])
def test_rates_within_two_percent_are_the_same(rate, differs):
    assert (problem(run(rate=rate), run(rate=10.0)) is not None) == differs
    assert (problem(run(scenario={"rate": rate}), run(scenario={"rate": 10.0})) is not None) == differs


@pytest.mark.parametrize("name", ["load_model", "streaming", "token_source"])
def test_what_the_files_say_must_be_the_same(name):
    assert problem(run(**{name: "a"}), run(**{name: "b"})) == ("not_comparable", f"{name} differs: a against b")


@pytest.mark.parametrize(("name", "words"), [("out_tokens", "output"), ("in_tokens", "input")])
def test_mean_lengths_must_be_the_same(name, words):
    assert problem(run(**{name: 51.0}), run(**{name: 50.0})) is None
    detail = f"mean {words} length in tokens differs: 50 against 51.1"
    assert problem(run(**{name: 51.1}), run(**{name: 50.0})) == ("not_comparable", detail)
    assert problem(run(**{name: None}), run(**{name: 50.0})) is not None
    assert problem(run(**{name: None}), run(**{name: None})) is None


def test_another_tokenizer_counts_the_input_differently_and_the_output_alike():
    assert problem(run(tokenizer="u", in_tokens=60.0), run()) is None
    assert problem(run(tokenizer="u", out_tokens=60.0), run()) is not None


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"attempted": 100, "failed": 0}, {"attempted": 100, "failed": 0}),
        ({"attempted": 150, "failed": 50}, {"attempted": 100, "failed": 0}),
        ({"attempted": 100, "failed": None}, {"attempted": 100, "failed": 0}),
    ],
)
def test_a_mean_over_runs_weighs_what_was_answered(short, long):
    """Half of the answers have 40 tokens, half 60."""
    runs = [run(out_tokens=40.0, **short), run(out_tokens=60.0, **long)]
    assert problem(runs, run(out_tokens=50.0)) is None
    assert problem(runs, run(out_tokens=51.1)) is not None


def test_a_run_that_answered_nothing_or_did_not_count_weighs_next_to_nothing():
    whole = run(out_tokens=50.0, attempted=1000)
    for silent in ({"attempted": 5, "failed": 5}, {"attempted": None, "failed": None}):
        assert problem([whole, run(out_tokens=90.0, **silent)], run(out_tokens=50.0)) is None
        assert problem(run(out_tokens=50.0, **silent), run(out_tokens=50.0)) is None
    assert problem([run(out_tokens=50.0, attempted=1, failed=0)] * 2, run(out_tokens=50.0)) is None
    thirds = [run(out_tokens=40.0, attempted=1), run(out_tokens=61.0, attempted=2)]
    assert problem(thirds, run(out_tokens=54.0)) is None


# --- cache ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "biased"), [((50, 50), False), ((50, 55), False), ((50, 56), True), ((56, 50), True)])
def test_hit_shares_may_differ_by_five_percent(hits, biased):
    found = problem(run(hits=hits[0], before=(7, 20)), run(hits=hits[1], before=(900, 1000)))
    expected = f"prefix cache hit shares from {min(hits) / 100:.2f} to {max(hits) / 100:.2f}"
    assert found == (("cache_bias", expected) if biased else None)


@pytest.mark.parametrize(("hits", "biased"), [((5, 5), False), ((0, 5), False), ((6, 6), True), ((0, 6), True)])
def test_a_cold_cache_hits_nothing(hits, biased):
    cold = {"scenario": {"cache": "cold"}}
    assert (problem(run(hits=hits[0], **cold), run(hits=hits[1], **cold)) is not None) == biased


@pytest.mark.parametrize(
    "silent",
    [
        None,
        probes(None, 50, 100),
        SimpleNamespace(
            before=SimpleNamespace(prefix_cache=SimpleNamespace(hits=0, queries=0)),
            after=SimpleNamespace(prefix_cache=None),
        ),
        probes((5, 5), 0, 0),
        probes((5, 500), 0, -500),
    ],
)
def test_a_cache_nobody_asked_is_not_judged(silent):
    assert problem(run(hits=silent), run(hits=50)) is None


def test_one_prompt_is_enough_for_a_share():
    once = probes((0, 0), 1, 1)
    assert problem(run(hits=once), run(hits=50)) is not None


def test_one_run_that_claims_a_cold_cache_is_held_to_it():
    """All hit alike. What is said of one run only makes it another workload."""
    cold = run(hits=20, scenario={"cache": "cold"})
    assert problem(cold, cold)[0] == "cache_bias"
    assert problem(cold, run(hits=20))[0] == problem([cold, run(hits=20)], run(hits=20))[0] == "not_comparable"
    assert problem(run(hits=20), run(hits=20)) is None


def test_a_run_weighs_what_it_answered():
    few = [run(attempted=2, out_tokens=10.0), run(attempted=1, out_tokens=40.0)]
    assert problem(few, run(attempted=3, out_tokens=20.0)) is None
    assert problem(few, run(attempted=3, out_tokens=25.0)) is not None
