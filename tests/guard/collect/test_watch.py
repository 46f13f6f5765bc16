"""What is seen of a replica from outside: crashes, restarts, time not ready. What it does not show stays unknown."""

import pytest

from pulumi_infercrane.guard.collect.probes import Sign, look
from pulumi_infercrane.guard.collect.stream import open_session
from pulumi_infercrane.guard.collect.watch import Watch
from tests.guard.collect.scripted import StartScripted, target_of

UP = Sign(listens=True, ready=True)
LOADING = Sign(listens=True, ready=False)
AWAY = Sign(listens=False, ready=False)


def began(at: float) -> Sign:
    return Sign(True, True, started=at)


def counted(tokens: int) -> Sign:
    return Sign(True, True, counted=tokens)


def seen(*signs: Sign) -> dict[str, float]:
    """Looks one second apart."""
    watch = Watch()
    for at, sign in enumerate(signs):
        watch.saw(sign, float(at))
    return watch.take()


def test_nothing_happened_and_restarts_are_unknown() -> None:
    assert seen(UP, UP, UP) == {"crashes": 0, "unready_s": 0.0}


def test_going_away_is_one_crash_however_long_it_takes() -> None:
    assert seen(UP, AWAY, AWAY, LOADING, UP) == {"crashes": 1, "unready_s": 3.0}
    assert seen(UP, AWAY, UP, AWAY, UP)["crashes"] == 2


def test_being_unready_is_no_crash() -> None:
    assert seen(UP, LOADING, UP) == {"crashes": 0, "unready_s": 1.0}


@pytest.mark.parametrize("signs", [(began(1), began(1), began(9)), (counted(10), counted(90), counted(3))])
def test_a_restart_between_two_looks_is_a_crash(signs: tuple[Sign, ...]) -> None:
    assert seen(*signs) == {"crashes": 1, "restarts": 1, "unready_s": 0.0}


def test_a_crash_and_the_restart_after_it_are_counted_once() -> None:
    assert seen(began(1), AWAY, LOADING, began(9)) == {"crashes": 1, "restarts": 1, "unready_s": 2.0}


def test_a_refused_request_is_seen_before_the_next_look() -> None:
    watch = Watch()
    watch.saw(UP, 0.0)
    for _ in range(3):
        watch.refused()
    watch.saw(UP, 1.0)
    assert watch.take()["crashes"] == 1


def test_counts_start_again_when_they_were_taken() -> None:
    watch = Watch()
    watch.saw(counted(5), 0.0)
    watch.saw(counted(1), 1.0)
    assert watch.take()["restarts"] == 1
    watch.saw(counted(2), 2.0)
    assert watch.take() == {"crashes": 0, "restarts": 0, "unready_s": 0.0}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ("", UP),
        ("process_start_time_seconds 1.7e+09\nvllm:prompt_tokens_total 7\n", Sign(True, True, 1.7e9, 7)),
        ("llamacpp:prompt_tokens_total 12\n", counted(12)),
    ],
)
async def test_a_look(scripted: StartScripted, metrics: str, expected: Sign) -> None:
    server = await scripted(metrics=metrics)
    async with open_session() as session:
        assert await look(session, target_of("r2", server.url)) == expected
        await server.stop()
        assert await look(session, target_of("r2", server.url)) == AWAY
