"""`canary` and `post_promotion` of a policy: defaults, and errors with their line."""

from datetime import timedelta

import pytest

from pulumi_infercrane.guard import PolicyError, load_policy

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction}]\n"


def test_without_a_canary_a_candidate_takes_over_at_once():
    policy = load_policy(HEAD)
    assert policy.canary is None
    assert policy.post_promotion.window == timedelta(minutes=30)


def test_what_is_left_out_takes_the_default():
    canary = load_policy(HEAD + "canary: {on_timeout: step_back}\n").canary
    assert canary.steps == (1, 5, 25, 100)
    assert (canary.min_step, canary.max_step) == (timedelta(minutes=10), timedelta(hours=1))
    watch = load_policy(HEAD + "post_promotion: {auto_rollback: false}\n").post_promotion
    assert (watch.auto_rollback, watch.retain_previous, watch.relative_latency) == (False, True, "notice")


def test_everything_can_be_said():
    text = "canary: {steps: [10, 100], min_step: 5m, max_step: 2h, on_timeout: hold}\n"
    text += "post_promotion: {window: 1h, max_window: 2d, auto_rollback: true, retain_previous: false,\n"
    text += "  relative_latency: rollback}\n"
    policy = load_policy(HEAD + text)
    assert policy.canary.steps == (10, 100)
    assert policy.canary.on_timeout == "hold"
    assert policy.post_promotion.max_window == timedelta(days=2)
    assert policy.post_promotion.relative_latency == "rollback"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("canary:\n  stps: [1]\n", r":5: unknown key 'stps', did you mean 'steps'"),
        ("canary:\n  steps: [25, 5, 100]\n", r":5: steps: must rise to 100"),
        ("canary:\n  steps: [5, 25]\n", r":5: steps: must rise to 100"),
        ("canary:\n  steps: [100]\n", r":5: steps: must rise to 100"),
        ("canary:\n  steps: [5, 5, 100]\n", r":5: steps: must rise to 100"),
        ("canary:\n  steps: [0, 100]\n", r":5: steps: 0 is not between 1 and 100"),
        ("canary:\n  min_step: 10\n", r":5: min_step: '10' is not a duration"),
        ("canary:\n  min_step: 0m\n", r":5: min_step: '0m' is no time at all"),
        ("canary:\n  min_step: 2h\n", r":5: max_step: must not be shorter"),
        ("canary:\n  on_timeout: promote\n", r":5: on_timeout: 'promote' is not one of hold, step_back"),
        ("post_promotion:\n  windw: 1h\n", r":5: unknown key 'windw'"),
        ("post_promotion:\n  max_window: 5m\n", r":5: max_window: must not be shorter"),
        ("post_promotion:\n  auto_rollback: maybe\n", r":5: auto_rollback: 'maybe'"),
        ("post_promotion:\n  relative_latency: page\n", r":5: relative_latency: 'page'"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, message):
    with pytest.raises(PolicyError, match=message):
        load_policy(HEAD + text)
