"""Which requests fall into a share."""

from hypothesis import given
from hypothesis import strategies as st

from pulumi_infercrane.router.routing.split import Share

keys = st.binary(max_size=64)
percents = st.integers(0, 100)


def taken(percent: int, name: str = "candidate", number: int = 10_000) -> int:
    share = Share(name, percent)
    return sum(share.takes(b"request-%d" % index) for index in range(number))


@given(keys, percents)
def test_a_key_always_lands_on_the_same_side(key: bytes, percent: int) -> None:
    assert Share("candidate", percent).takes(key) == Share("candidate", percent).takes(key)


@given(keys, percents, percents)
def test_a_larger_share_contains_the_smaller(key: bytes, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert Share("candidate", small).takes(key) <= Share("candidate", large).takes(key)


def test_R9_nothing_is_nothing_and_all_is_all() -> None:
    assert (taken(0), taken(100)) == (0, 10_000)


def test_the_share_is_what_it_says() -> None:
    """Fixed ids, so the same numbers everywhere; all within three standard deviations of the binomial."""
    assert [taken(percent) for percent in (1, 5, 25, 50)] == [99, 506, 2508, 4979]


def test_R10_who_is_on_the_candidate_stays_there_as_it_grows() -> None:
    steps = [Share("candidate", percent) for percent in (1, 5, 25, 100)]
    for index in range(2000):
        sides = [share.takes(b"%d" % index) for share in steps]
        assert sides == sorted(sides)


def test_another_candidate_is_tried_on_other_requests() -> None:
    one, other = Share("a", 5), Share("b", 5)
    both = sum(one.takes(b"%d" % index) and other.takes(b"%d" % index) for index in range(10_000))
    assert both < 60
