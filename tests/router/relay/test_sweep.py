"""The timers of all connections: run for everybody, and never in a way that others have to wait for."""

import asyncio
from dataclasses import dataclass, field

import pytest

from pulumi_infercrane.router.relay.relay import SWEPT_TOGETHER, Relay
from tests.router.conftest import Running, eventually


@dataclass(eq=False)
class Timed:
    """A connection, as far as its timers are concerned."""

    turns: list[int]
    turn: list[int]
    broken: bool = False

    def check(self, now: float) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.turns.append(self.turn[0])


@dataclass
class Others:
    """Counts how often the loop comes to others meanwhile."""

    turn: list[int] = field(default_factory=lambda: [0])

    def go_on(self) -> None:
        self.turn[0] += 1
        self._next = asyncio.get_running_loop().call_soon(self.go_on)

    def stop(self) -> None:
        self._next.cancel()


def open_connections(relay: Relay, count: int, turn: list[int], *, broken: int = 0) -> list[int]:
    """The turn of the loop in which the timers of each ran."""
    turns: list[int] = []
    added = [Timed(turns, turn, broken=number < broken) for number in range(count)]
    relay.clients |= set(added)  # type: ignore[arg-type]
    return turns


@pytest.mark.parametrize("together", [1, SWEPT_TOGETHER, SWEPT_TOGETHER + 1, 10 * SWEPT_TOGETHER])
async def test_others_have_their_turn_between(router: Running, together: int) -> None:
    others = Others()
    others.go_on()
    turns = open_connections(router.parts.relay, together, others.turn)
    await eventually(lambda: len(turns) >= together)
    others.stop()
    router.parts.relay.clients.clear()
    in_one_turn = [turns[:together].count(turn) for turn in set(turns[:together])]
    assert sum(in_one_turn) == together
    assert max(in_one_turn) <= SWEPT_TOGETHER


async def test_a_fault_in_one_does_not_end_the_timers_of_others(
    router: Running, caplog: pytest.LogCaptureFixture
) -> None:
    turns = open_connections(router.parts.relay, 200, [0], broken=3)
    await eventually(lambda: len(turns) >= 2 * 197)
    router.parts.relay.clients.clear()
    assert "ZeroDivisionError" in caplog.text
