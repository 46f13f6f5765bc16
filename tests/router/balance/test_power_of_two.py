from collections import Counter

from pulumi_infercrane.router.balance.power_of_two import chooser


def test_the_busiest_of_all_never_answers(endpoints) -> None:
    choose = chooser(endpoints(0, 0, 0, 7))
    counts = Counter(choose(b"id-%d" % number, b"").id for number in range(3000))
    assert counts["d"] == 0
    assert min(counts["a"], counts["b"], counts["c"]) > 800


def test_with_equal_loads_everyone_gets_its_share(endpoints) -> None:
    choose = chooser(endpoints(1, 1, 1, 1))
    counts = Counter(choose(b"id-%d" % number, b"").id for number in range(4000))
    assert all(900 < counts[name] < 1100 for name in "abcd")


def test_one_id_draws_the_same_two(endpoints) -> None:
    choose = chooser(endpoints(1, 1, 1, 1, 1))
    assert len({choose(b"the same", b"").id for _ in range(20)}) == 1


def test_the_loads_stay_close(endpoints) -> None:
    replicas = endpoints(0, 0, 0, 0, 0, 0)
    choose = chooser(replicas)
    for number in range(6000):
        choose(b"id-%d" % number, b"").replica.inflight += 1
    assert all(990 <= one.replica.inflight <= 1010 for one in replicas)
