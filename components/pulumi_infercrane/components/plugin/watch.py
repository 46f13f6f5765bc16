"""Ends this process when the engine is gone, which a kill of the engine alone does not do.

Two signs: the engine holds the write end of our stdin, and it answers at its address. The end of stdin is
only a hint, because a language host in between may close it early: it makes us ask more often.
"""

import asyncio
import os
import stat

from pulumi_infercrane.components.plugin.engine import EngineLink

POLL_S = 10.0
HASTY_POLL_S = 0.5
MISSES = 3


async def engine_gone(link: EngineLink) -> None:
    """Return once the engine has missed three probes in a row.

    A process that knows no engine yet (started for Attach) takes the end of stdin for a miss.
    """
    stdin_ended = _watched_stdin()
    misses = 0
    while misses < MISSES:
        await _first_of(stdin_ended, POLL_S)
        if stdin_ended.is_set():
            await asyncio.sleep(HASTY_POLL_S)
        alive = await link.is_alive() if link.address else not stdin_ended.is_set()
        misses = 0 if alive else misses + 1


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _watched_stdin() -> asyncio.Event:
    """Set at the end of stdin. Only pipes and sockets are watched: /dev/null ends at once."""
    ended = asyncio.Event()
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        asyncio.get_running_loop().add_reader(0, _drain, ended)
    return ended


def _drain(ended: asyncio.Event) -> None:
    if not os.read(0, 4096):
        asyncio.get_running_loop().remove_reader(0)
        ended.set()
