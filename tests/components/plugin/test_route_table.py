"""Who has the last word on a setting of a table: who declares it, else whoever told the router."""

from pathlib import Path
from typing import Any

from pulumi_infercrane.components.plugin.route_table import SETTINGS, seen, strayed, table, with_whole_settings
from pulumi_infercrane.components.plugin.wire import UNKNOWN
from pulumi_infercrane.router.tables.schema import read_declared
from tests.components.plugin.releasing import route_inputs

R1, R2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64
EVERYTHING: dict[str, Any] = {
    "limits": {"max_inflight": 2},
    "pins": [R2],
    "pinning": True,
    "session_header": "x-session",
    "fallback": R1,
    "mirror": {"revision": R2, "percent": 5},
    "balance": "least_inflight",
    "health": {"eject_after": 3},
    "timers": {"gap_s": 7},
    "stack": "lab/dev",
}


def declared(**settings: Any) -> dict[str, Any]:
    """Checked inputs."""
    inputs, failures = with_whole_settings(route_inputs(Path("router.sock"), R1, R2) | settings)
    assert failures == []
    return inputs


def live(inputs: dict[str, Any], **by_hand: Any) -> dict[str, Any]:
    """What a router has after these inputs were put, and somebody changed it."""
    return read_declared(table(inputs, {}, {}) | by_hand).document()


def test_every_setting_there_is_can_be_declared() -> None:
    assert set(SETTINGS) == set(EVERYTHING)
    inputs = declared(**EVERYTHING)
    assert seen(inputs, live(inputs)) == inputs
    assert live(inputs)["revisions"][R1]["health"] == inputs["health"]


def test_what_is_declared_wins_over_what_was_set_by_hand() -> None:
    inputs = declared(limits={"max_inflight": 2})
    changed = live(inputs, limits={"max_inflight": 7})
    assert table(inputs, inputs, changed)["limits"]["max_inflight"] == 2
    assert seen(inputs, changed)["limits"]["max_inflight"] == 7


def test_what_is_not_declared_is_kept_and_no_difference() -> None:
    inputs = declared()
    by_hand = live(inputs, limits={"max_inflight": 7}, session_header="x-session")
    assert seen(inputs, by_hand) == inputs
    kept = table(inputs, inputs, by_hand)
    assert (kept["limits"]["max_inflight"], kept["session_header"]) == (7, "x-session")


def test_what_was_declared_until_now_is_taken_back() -> None:
    before = declared(**EVERYTHING)
    after = read_declared(table(declared(), before, live(before))).document()
    assert after == live(declared())


def test_a_setting_that_was_taken_away_by_hand_is_a_difference() -> None:
    inputs = declared(**EVERYTHING)
    bare = live(declared())
    found = seen(inputs, bare)
    assert not {"limits", "mirror", "health"} & found.keys()
    assert (found["pins"], found["pinning"], found["session_header"], found["fallback"]) == ([], False, "", "")
    assert (found["balance"], found["timers"]["gap_s"]) == ("round_robin", 60)


def test_one_revision_that_differs_is_a_difference() -> None:
    inputs = declared(balance="least_inflight")
    changed = live(inputs)
    del changed["revisions"][R2]["balance"]
    assert seen(inputs, changed)["balance"] == "round_robin"
    assert not strayed(inputs, changed)


def test_a_setting_that_breaks_a_rule_is_named_by_its_path() -> None:
    inputs = route_inputs(Path("router.sock"), R1) | {"limits": {"max_inflight": 0}, "pins": [R2]}
    _, failures = with_whole_settings(inputs)
    assert [path for path, _ in failures] == ["pins", "limits.max_inflight"]


def test_what_is_not_known_yet_is_left_alone() -> None:
    inputs = route_inputs(Path("router.sock"), R1) | {"limits": {"max_inflight": UNKNOWN}, "balance": None}
    inputs["revisions"][0]["urls"] = [UNKNOWN]
    checked, failures = with_whole_settings(inputs)
    assert (checked["limits"], failures) == ({"max_inflight": UNKNOWN}, [])
    assert "balance" not in checked
    unknown = inputs | {"revisions": UNKNOWN, "pins": [R1]}
    assert with_whole_settings(unknown)[1] == []
