from collections import Counter

from pulumi_infercrane.router.balance.least_inflight import chooser


def test_the_one_with_the_fewest_requests_answers(endpoints) -> None:
    choose = chooser(endpoints(3, 1, 2))
    assert {choose(b"", b"").id for _ in range(6)} == {"b"}


def test_equal_ones_take_turns(endpoints) -> None:
    choose = chooser(endpoints(0, 0, 0, 5))
    counts = Counter(choose(b"", b"").id for _ in range(400))
    assert counts["d"] == 0
    assert min(counts["a"], counts["b"], counts["c"]) >= 100


def test_the_loads_become_equal(endpoints) -> None:
    replicas = endpoints(4, 0, 2)
    choose = chooser(replicas)
    for _ in range(9):
        choose(b"", b"").replica.inflight += 1
    assert [one.replica.inflight for one in replicas] == [5, 5, 5]
