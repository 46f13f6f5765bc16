"""The probes that peers are asked too, of our router."""

import pytest

from benchmarks.probes import page
from tests.router.catalogue import CATALOGUE
from tests.router.conftest import R1, StartRouter, revision
from tests.router.probes import Probe, Stage, all_probes, verdict
from tests.router.probes.streams import SILENCE_S
from tests.router.upstream import Upstream

TIMERS = {"first_byte_s": SILENCE_S, "gap_s": SILENCE_S, "client_stall_s": 5}


@pytest.mark.parametrize("probe", list(all_probes()), ids=lambda probe: f"{probe.name} {probe.holds}")
async def test_it_holds(start_router: StartRouter, upstream: Upstream, probe: Probe) -> None:
    router = await start_router()
    await router.put({R1: revision("r1", upstream.url, model="chat")}, timers=TIMERS)
    await router.flip(R1)
    assert await verdict(probe, Stage(router.port, upstream)) == ""


def test_the_page_shows_what_was_found_and_the_tests_there_are() -> None:
    text = page.PAGE.read_text()
    assert text == page.page(text, page.results()), "python -m benchmarks.probes.page writes it"


def test_every_probe_of_the_catalogue_has_a_test() -> None:
    assert [name for name, _ in CATALOGUE if name not in page.named_tests()] == []
