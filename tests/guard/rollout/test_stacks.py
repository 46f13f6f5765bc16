"""A window was counted in one stack, and is nothing to a decision about another one."""

import json

import pytest

from pulumi_infercrane.guard import load_policy, post_promotion, read_window, signed_window
from pulumi_infercrane.guard.policy import same_stack
from tests.guard.rollout.conftest import POLICY, alone, flipped, loaded, minutes, pair, step, watched
from tests.guard.trust.conftest import entry, key_of

KEY = key_of("router")
TRUSTING = POLICY + f"trust: {json.dumps({'keys': [entry(KEY, kinds=['window'])]})}\n"
SEEN_ONLY = POLICY + f"trust: {json.dumps({'keys': [entry(KEY, kinds=['window'])], 'require_signatures': False})}\n"


def without_stack(window):
    return {name: value for name, value in window.items() if name != "stack"}


def told(decision):
    """Whether each window was used, and why not."""
    return [(one["used"], one.get("reasons", [""])[0].split(":")[0]) for one in decision.record["windows"]]


@pytest.mark.parametrize("stack", ["prod", "lab/prod", "org/lab/prod"])
def test_a_window_of_the_stack_counts_as_far_as_its_name_is_written_out(stack):
    assert step(pair(), stack=stack).verdict == "promote"


@pytest.mark.parametrize("stack", ["staging", "lab/staging", "shop/prod", "default"])
def test_a_window_of_another_stack_does_not(stack):
    decision = step(pair(), stack=stack)
    assert (decision.action, told(decision)) == ("hold", [(False, "binding_mismatch")])
    assert decision.record["first_reason"].startswith("window.observed: no_evidence")


def test_nor_does_a_signed_one():
    decision = step(signed_window(pair(stack="lab/staging"), KEY), policy=TRUSTING)
    assert (decision.action, told(decision)) == ("hold", [(False, "binding_mismatch")])


def test_a_short_name_does_not_put_two_stacks_together():
    halves = pair(end=5, stack="lab/prod"), pair(begin=5, stack="shop/prod")
    assert step(*halves, stack="lab/prod").action == "hold"
    decision = step(*halves, stack="prod")
    assert decision.action == "hold"
    assert decision.reasons[0].startswith("window.observed: conflict: windows of lab/prod and shop/prod")
    assert step(halves[0], pair(begin=5, stack="prod"), stack="prod").verdict == "promote"


@pytest.mark.parametrize("changes", [{"failed": 200}, {"lost": "worker"}])
def test_what_happened_in_another_stack_does_no_harm_here(changes):
    assert step(pair(), pair(stack="lab/staging", **changes)).verdict == "promote"


@pytest.mark.parametrize("policy", [POLICY, SEEN_ONLY])
def test_a_window_that_names_no_stack_counts_where_nobody_must_vouch_for_it(policy):
    assert step(without_stack(pair()), policy=policy).verdict == "promote"


def test_where_windows_must_be_signed_they_must_say_where_they_were_counted():
    decision = step(signed_window(without_stack(pair()), KEY), policy=TRUSTING)
    assert (decision.action, told(decision)) == ("hold", [(False, "binding_missing")])
    (observed,) = [rule for rule in decision.record["rules"] if rule["rule"] == "window.observed"]
    assert observed["detail"].endswith("; 1 set aside as binding_missing")


def test_the_stack_is_part_of_what_is_signed():
    moved = signed_window(pair(stack="lab/staging"), KEY) | {"stack": "lab/prod"}
    assert told(step(moved, policy=TRUSTING)) == [(False, "signature_invalid")]


def test_the_watch_takes_windows_of_its_stack_only_and_freezes_no_other():
    assert watched(alone(end=30)).record["state"] == "proven"
    assert told(watched(alone(end=30, stack="lab/staging"))) == [(False, "binding_mismatch")]
    baseline = loaded([pair(), pair(stack="lab/staging")])
    promoted = flipped(decision_type="canary_step", windows=[{"sha256": one.sha256, "used": True} for one in baseline])
    decision = post_promotion(load_policy(POLICY), [*baseline, *loaded([alone(end=30)])], promoted, as_of=minutes(30))
    assert decision.record["frozen"] == [baseline[0].sha256]


@pytest.mark.parametrize("stack", ["", "s" * 303, 7, None])
def test_what_is_no_name_of_a_stack_makes_no_window(stack):
    problem = read_window(json.dumps(pair(stack=stack)).encode()).problem
    assert problem
    assert problem.code == "bad_value"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("prod", "prod", True),
        ("prod", "shop/prod", True),
        ("org/shop/prod", "shop/prod", True),
        ("prod", "shop", False),
        ("shop/prod", "lab/prod", False),
        ("shop/prod", "shop/prod2", False),
        ("prod", "shop/prod/x", False),
    ],
)
def test_names_are_of_one_stack_as_far_as_both_are_written_out(one, other, same):
    assert same_stack(one, other) is same_stack(other, one) is same
