"""What must hold for any windows: properties of both decisions, and their error rates by seeded simulation."""

import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard.statistics import binomial_at_least
from tests.guard.rollout.conftest import (
    NEW,
    OLD,
    POLICY,
    binding,
    flipped,
    minutes,
    pair,
    seconds,
    step,
    watched,
    window,
)

EXAMPLES = settings(max_examples=25)
RANK = {"rollback": 0, "hold": 1, "advance": 2, "flip": 2, "keep": 2}

counts = st.integers(0, 500)
without_requests = st.fixed_dictionaries(
    {
        "client_faults": st.dictionaries(st.sampled_from(["400", "401", "404", "429"]), counts),
        "client_cancelled": counts,
        "unobserved": counts,
    }
)


@EXAMPLES
@given(st.lists(without_requests, max_size=4), st.integers(0, 3000), st.sampled_from([5, 25]))
def test_without_data_nothing_advances_and_nothing_goes_back(shapes, minute, weight):
    length = minute / max(1, len(shapes))
    steps, watches = [], []
    for index, shape in enumerate(shapes if minute else ()):
        times = {"begin": index * length, "end": (index + 1) * length}
        steps.append(window(binding(NEW, weight, **shape), binding(OLD, 100 - weight, seconds(50)), **times))
        watches.append(window(binding(NEW, 100, **shape), **times))
    decision = step(*steps, weight=weight, as_of=minutes(minute))
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "hold")
    after = watched(*watches, as_of=minutes(minute))
    assert after.verdict == "insufficient_evidence"
    assert after.action == ("keep" if minute >= 720 else "hold")


@st.composite
def traffic(draw):
    """Windows of one step; what the candidate failed in each of them."""
    sizes = draw(st.lists(st.integers(1, 250), min_size=1, max_size=4))
    return [(n, draw(st.integers(0, n // draw(st.sampled_from([1, 10, 50]))))) for n in sizes]


def windows_of(sizes, weight=5):
    ends = [10 * (index + 1) / len(sizes) for index in range(len(sizes))]
    begins = [0.0, *ends[:-1]]
    return [
        pair(n, failed, weight=weight, begin=begin, end=end)
        for (n, failed), begin, end in zip(sizes, begins, ends, strict=True)
    ]


def after_flip(sizes):
    return [one | {"bindings": [one["bindings"][0] | {"weight": 100}]} for one in windows_of(sizes)]


@EXAMPLES
@given(traffic(), st.randoms(use_true_random=False))
def test_order_and_repetitions_of_windows_change_no_byte(sizes, source):
    windows = windows_of(sizes)
    shuffled = [*windows, *source.choices(windows, k=2)]
    source.shuffle(shuffled)
    assert step(*shuffled).canonical == step(*windows).canonical
    watches = after_flip(sizes)
    again = [*reversed(watches), watches[0]]
    assert watched(*again, as_of=minutes(10)).canonical == watched(*watches, as_of=minutes(10)).canonical


@EXAMPLES
@given(traffic(), traffic())
def test_windows_of_another_stack_decide_nothing(sizes, elsewhere):
    """Whether they are better or worse: they are named in the record, and that is all."""
    others = [one | {"stack": "lab/staging"} for one in windows_of(elsewhere)]
    alone, beside = step(*windows_of(sizes)), step(*windows_of(sizes), *others)
    assert (beside.action, beside.record["rules"]) == (alone.action, alone.record["rules"])
    assert step(*others).action == "hold"


@EXAMPLES
@given(traffic(), st.data())
def test_a_failure_instead_of_an_answer_never_helps(sizes, data):
    index = data.draw(st.integers(0, len(sizes) - 1))
    n, failed = sizes[index]
    worse = [*sizes]
    worse[index] = (n, data.draw(st.integers(failed, n)))
    before, after = step(*windows_of(sizes)), step(*windows_of(worse))
    assert RANK[after.action] <= RANK[before.action]
    policy = POLICY.replace("window: 30m", "window: 10m")
    kept, then = (watched(*after_flip(one), as_of=minutes(10), policy=policy) for one in (sizes, worse))
    assert RANK[then.action] <= RANK[kept.action]


@EXAMPLES
@given(traffic(), st.integers(1, 3))
def test_a_restart_always_goes_back(sizes, restarts):
    windows = windows_of(sizes)
    windows[0]["bindings"][0]["restarts"] = restarts
    assert step(*windows).action == "rollback"


@EXAMPLES
@given(traffic())
def test_a_way_back_is_always_named(sizes):
    decision = watched(*after_flip(sizes), as_of=minutes(10))
    assert (decision.action == "rollback") == ("rollback_to" in decision.record)
    assert decision.record.get("rollback_to", OLD) == flipped()["expected_active"]


# --- error rates -------------------------------------------------------------------------------------------------


@functools.cache
def p_of(failed, n, limit=0.01):
    return binomial_at_least(failed, n, limit)


def aborted(source, rate, looks=30, requests=60):
    """Whether one of several looks at growing traffic finds the limit of 0.01 exceeded, at alpha/k each."""
    failed = n = 0
    for k in range(1, looks + 1):
        failed += sum(source.random() < rate for _ in range(requests))
        n += requests
        if p_of(failed, n) <= 0.05 / k:
            return True
    return False


@pytest.mark.parametrize(("rate", "least", "most"), [(0.002, 0, 0.01), (0.01, 0, 0.05), (0.04, 0.95, 1)])
def test_many_looks_abort_seldom_what_is_good_and_mostly_what_is_bad(rate, least, most):
    """Looked at without a correction, a candidate exactly at the limit is aborted in 17 % of runs."""
    source = random.Random(1)
    share = sum(aborted(source, rate) for _ in range(400)) / 400
    assert least <= share <= most


def drawn(source, n, rate, **changes):
    bad = [sum(source.random() < rate for _ in range(n)), sum(source.random() < 0.01 for _ in range(n))]
    sides = zip((NEW, OLD), (5, 95), bad, strict=True)
    bindings = [binding(name, share, seconds(n - k, source.randrange(10**6)), k) for name, share, k in sides]
    return window(*bindings, **changes)


def minutes_until_decided(source, rate, n=80):
    """The action that ends a step which is looked at every minute."""
    windows, history = [], []
    for minute in range(1, 13):
        windows.append(drawn(source, n, rate, begin=minute - 1, end=minute))
        decision = step(*windows, as_of=minutes(minute), history=history)
        history.append(decision.record)
        if decision.action != "hold":
            return decision.action
    return "hold"


def test_a_step_looked_at_every_minute_lets_equal_revisions_on_and_stops_broken_ones():
    source = random.Random(3)
    equal = [minutes_until_decided(source, 0.01) for _ in range(8)]
    broken = [minutes_until_decided(source, 0.15) for _ in range(8)]
    assert "rollback" not in equal
    assert equal.count("advance") >= 7
    assert broken == ["rollback"] * 8
