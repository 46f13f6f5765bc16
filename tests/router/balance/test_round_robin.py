from collections import Counter

from pulumi_infercrane.router.balance.round_robin import chooser


def test_they_take_turns(endpoints) -> None:
    choose = chooser(endpoints(0, 9, 0))
    assert "".join(choose(b"", b"").id for _ in range(7)) == "abcabca"


def test_the_load_plays_no_part(endpoints) -> None:
    choose = chooser(endpoints(100, 0))
    assert Counter(choose(b"", b"").id for _ in range(10)) == {"a": 5, "b": 5}
