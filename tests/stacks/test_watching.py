"""What `release watch` looks at; where there is nothing, it says what serves and why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components import RouteArgs
from pulumi_infercrane.guard import rollback
from pulumi_infercrane.stacks.config import RouterConfig, StackConfig
from pulumi_infercrane.stacks.errors import NothingToWatch
from pulumi_infercrane.stacks.watching import promoted_by
from tests.guard.rollout.conftest import NEW, OLD, OTHER, alone, flipped, minutes, opened, pair, step, watched

NOWHERE = Path("/nowhere")
CONFIG = StackConfig(NOWHERE, "chat", (), None, None, NOWHERE, NOWHERE, RouterConfig(), RouteArgs())
BOOTSTRAP = flipped(decision_type="bootstrap", candidate=OLD, baseline="", decision_id="sha256:" + "b" * 64)
REJECTED = step(pair(failed=80)).record


def back(active: str, to: str, reason: str = "slow") -> Mapping[str, Any]:
    """A rollback by hand: of the route, or of a share."""
    more = {"policy_digest": "sha256:" + "0" * 64, "as_of": minutes(20), "reason": reason}
    return rollback(service="chat", stack="prod", target=to, active=active, **more).record


def refusal(*records: Mapping[str, Any]) -> str:
    with pytest.raises(NothingToWatch) as refused:
        promoted_by(list(records), CONFIG, "prod")
    return str(refused.value)


def test_who_took_over_last_is_watched() -> None:
    assert promoted_by([BOOTSTRAP, flipped()], CONFIG, "prod") == flipped()


def test_a_share_of_a_later_candidate_that_was_taken_back_does_not_end_the_watch() -> None:
    for taken_back in (back(OTHER, NEW), REJECTED):
        assert promoted_by([BOOTSTRAP, flipped(), taken_back], CONFIG, "prod") == flipped()
    decision = watched(alone(end=30), history=[flipped(), back(OTHER, NEW)])
    assert decision.record["state"] == "proven"


@pytest.mark.parametrize(
    ("newest", "why"),
    [
        (REJECTED, "benchmark.error_fraction"),
        (back(NEW, OLD, "the share is taken back: slow"), "rollback: the share is taken back: slow"),
    ],
)
def test_after_a_share_was_taken_back_it_says_what_serves_and_why(newest: Mapping[str, Any], why: str) -> None:
    text = refusal(BOOTSTRAP, opened(), newest)
    assert text.startswith(f"{OLD} serves since {minutes(0)}, as the first revision; ")
    assert f"the share of {NEW} was taken back at {newest['as_of']} ({why}" in text
    assert text.endswith("there is nothing to watch")


def test_a_candidate_on_its_way_is_not_watched_yet() -> None:
    assert f"{NEW} has 5 % of the traffic, on which `infercrane up` decides" in refusal(BOOTSTRAP, opened())


def test_what_was_rolled_back_to_is_not_watched() -> None:
    text = refusal(BOOTSTRAP, flipped(), back(NEW, OLD))
    assert text == f"{OLD} serves again since {minutes(20)} (rollback: slow); there is nothing to watch"


@pytest.mark.parametrize(("failed", "told"), [(0, "proven;"), (80, "failed: take it back with `infercrane rollback`;")])
def test_a_watch_that_is_over_is_told_with_how_it_ended(failed: int, told: str) -> None:
    ended = watched(alone(failed=failed, end=30)).record
    text = refusal(BOOTSTRAP, flipped(), ended)
    assert f"{NEW} serves since {minutes(0)}, and its watch ended at {minutes(30)}: {told}" in text


def test_without_a_decision_nothing_is_watched() -> None:
    assert refusal() == "no decision let a revision of service chat take over; there is nothing to watch"
