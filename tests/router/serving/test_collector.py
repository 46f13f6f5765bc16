"""The garbage collector: what it leaves alone, and what is told of its pauses."""

import gc
from collections.abc import Iterator

import pytest

from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.serving.collector import spare_what_stays, watch_collector


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_what_was_there_before_is_looked_at_no_more() -> None:
    before: list[list[object]] = [[]]
    spare_what_stays()
    after: list[list[object]] = [[]]
    looked_at = gc.get_objects()
    assert any(one is after for one in looked_at)
    assert not any(one is before for one in looked_at)


def test_every_pause_is_booked_until_the_end() -> None:
    pauses = Histogram()
    end = watch_collector(pauses)
    gc.collect()
    end()
    gc.collect()
    assert pauses.count == 1
