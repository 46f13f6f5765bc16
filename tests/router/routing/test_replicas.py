"""Which replicas take requests: failures, probes, slow starts, the last one."""

from collections import Counter
from typing import Any, cast

import pytest

from pulumi_infercrane.router.balance import chooser_of
from pulumi_infercrane.router.routing.replicas import Replica, Replicas, state_of
from pulumi_infercrane.router.routing.routes import Endpoint
from pulumi_infercrane.router.tables.table import Health


class Fleet:
    """Replicas and the clock they live by."""

    def __init__(self, names: str, health: Health | None = None, draining: str = "") -> None:
        self.now = 1000.0
        self.endpoints = [
            Endpoint(name, cast("Any", None), b"", b"", b"", Replica(0.0), draining=name in draining) for name in names
        ]
        self.replicas = Replicas(self.endpoints, chooser_of("round_robin"), health, lambda: self.now)

    def __getitem__(self, name: str) -> Endpoint:
        return next(endpoint for endpoint in self.endpoints if endpoint.id == name)

    @property
    def ready(self) -> str:
        return "".join(endpoint.id for endpoint in self.replicas.ready)

    def fail(self, name: str, times: int = 1) -> None:
        for _ in range(times):
            self.replicas.failed(self[name])

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.replicas.refresh()

    def picks(self, number: int) -> Counter[str]:
        return Counter(self.replicas.pick(b"%d" % index, b"").id for index in range(number))


@pytest.fixture
def three() -> Fleet:
    return Fleet("abc", Health(eject_after=3, eject_s=5, eject_most_s=15))


def test_failures_in_a_row_leave_a_replica_out(three: Fleet) -> None:
    three.fail("b", 2)
    assert three.ready == "abc"
    three.fail("b")
    assert three.ready == "ac"
    assert three.picks(10) == {"a": 5, "c": 5}


def test_a_success_in_between_begins_the_count_anew(three: Fleet) -> None:
    for _ in range(5):
        three.fail("b", 2)
        three.replicas.succeeded(three["b"])
    assert three.ready == "abc"


def test_it_comes_back_when_its_time_is_over(three: Fleet) -> None:
    three.fail("b", 3)
    three.wait(4.9)
    assert three.ready == "ac"
    three.wait(0.1)
    assert three.ready == "abc"


def test_each_time_is_longer_up_to_the_most(three: Fleet) -> None:
    for seconds in (5, 10, 15, 15):
        three.fail("b", 3)
        three.wait(seconds - 0.1)
        assert three.ready == "ac", seconds
        three.wait(0.1)
        assert three.ready == "abc", seconds


def test_after_a_good_time_the_first_is_short_again(three: Fleet) -> None:
    for seconds in (5, 10):
        three.fail("b", 3)
        three.wait(seconds)
    three.wait(10.1)
    three.fail("b", 3)
    three.wait(5)
    assert three.ready == "abc"


def test_a_success_of_one_that_is_out_brings_it_back(three: Fleet) -> None:
    """A request that was under way, or went there because nobody else took a connection."""
    three.fail("b", 3)
    three.replicas.succeeded(three["b"])
    assert three.ready == "abc"


def test_the_last_one_is_never_left_out(three: Fleet) -> None:
    three.fail("a", 3)
    three.fail("b", 3)
    assert (three.ready, three.replicas.exhausted) == ("c", False)
    three.fail("c", 30)
    assert (three.ready, three.replicas.exhausted) == ("c", True)
    three.replicas.succeeded(three["c"])
    assert (three.ready, three.replicas.exhausted) == ("c", False)


def test_when_all_were_out_the_first_back_takes_over(three: Fleet) -> None:
    for name in "abc":
        three.fail(name, 3)
        three.wait(1)
    three.wait(2)
    assert (three.ready, three.replicas.exhausted) == ("a", False)


def test_without_health_nobody_is_left_out() -> None:
    fleet = Fleet("ab")
    fleet.fail("a", 100)
    assert fleet.ready == "ab"


def test_a_draining_replica_gets_nothing_and_is_nobodys_second_choice() -> None:
    fleet = Fleet("abc", draining="b")
    assert fleet.picks(10) == {"a": 5, "c": 5}
    assert [endpoint.id for endpoint in fleet.replicas.others(fleet["a"])] == ["c"]


def test_the_second_choice_is_first_among_the_ready(three: Fleet) -> None:
    three.fail("b", 3)
    assert [endpoint.id for endpoint in three.replicas.others(three["a"])] == ["c", "b"]


def test_no_usable_replica_at_all() -> None:
    fleet = Fleet("")
    assert (fleet.ready, fleet.replicas.exhausted) == ("", False)


@pytest.fixture
def probed() -> Fleet:
    return Fleet("ab", Health(probe_s=1, probe_failures=2))


def test_probes_that_fail_leave_it_out_until_one_succeeds(probed: Fleet) -> None:
    probed.replicas.probed(probed["a"], well=False)
    assert probed.ready == "ab"
    probed.replicas.probed(probed["a"], well=False)
    assert probed.ready == "b"
    probed.wait(1000)
    assert probed.ready == "b"
    probed.replicas.probed(probed["a"], well=True)
    assert probed.ready == "ab"


def test_N16_probes_take_no_traffic_off_the_last_one(probed: Fleet) -> None:
    for name in "abab":
        probed.replicas.probed(probed[name], well=False)
    assert (probed.ready, probed.replicas.exhausted) == ("b", True)


def test_R14_slow_health_of_one_that_answers_leaves_it_in(probed: Fleet) -> None:
    for _ in range(10):
        probed.replicas.succeeded(probed["a"])
        probed.replicas.probed(probed["a"], well=False)
    assert probed.ready == "ab"


def test_a_slow_start_grows_evenly_to_the_full_share() -> None:
    fleet = Fleet("ab", Health(eject_after=1, eject_s=5, slow_start_s=100))
    fleet.wait(0)
    assert fleet.picks(100) == {"a": 50, "b": 50}
    fleet.fail("b")
    fleet.wait(5)
    shares = []
    for _ in range(4):
        shares.append(fleet.picks(200)["b"])
        fleet.wait(25)
    assert shares == [9, 25, 50, 75]
    assert fleet.picks(200) == {"a": 100, "b": 100}


def test_replicas_that_all_start_share_evenly() -> None:
    fleet = Fleet("ab", Health(slow_start_s=2000))
    assert fleet.picks(10) == {"a": 5, "b": 5}


def test_what_is_told(three: Fleet) -> None:
    three.fail("b", 3)
    three.replicas.succeeded(three["a"])
    assert state_of(three.replicas, three["a"])._asdict() == {
        "ready": True,
        "inflight": 0,
        "answered": 1,
        "failed": 0,
        "ejections": 0,
        "failed_probes": 0,
    }
    assert state_of(three.replicas, three["b"])[:1] == (False,)
    assert state_of(three.replicas, three["b"]).ejections == 1
