"""The addresses behind the names of upstreams. No name waits for another one, and nothing waits long for a resolver
that hangs while it is known where the upstream was a moment ago.
"""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

FRESH_S = 5.0
"""So long a name is not looked up again."""
STALE_S = 60.0
"""So long what was found may still be used when looking it up again takes more than `PATIENCE_S`."""
PATIENCE_S = 0.1
MAX_LOOKUPS = 32
"""At a time, each in a thread of its own."""

Addresses = tuple[str, ...]
"""Numeric, in the order in which they are to be tried."""


class _Known(NamedTuple):
    addresses: Addresses
    at: float


class Lookups:
    """Of one process; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._running: dict[str, asyncio.Task[Addresses | Exception]] = {}
        self._slots = asyncio.Semaphore(MAX_LOOKUPS)

    async def addresses(self, host: str) -> Addresses:
        """Where a host is; one given by its address is there.

        Raises:
            OSError: it has no address, or its name is none.
        """
        if _is_numeric(host):
            return (host,)
        known = self._known.get(host)
        age = self._clock() - known.at if known is not None else STALE_S
        if known is not None and age < FRESH_S:
            return known.addresses
        lookup = self._running.get(host) or self._begin(host)
        if known is not None and age < STALE_S:
            await asyncio.wait((lookup,), timeout=PATIENCE_S)
            if not lookup.done():
                return known.addresses
        found = await asyncio.shield(lookup)
        if isinstance(found, Exception):
            raise OSError(f"{host[:100]}: {found}") from found
        return found

    def forget(self, host: str) -> None:
        """Nothing answers where it was."""
        self._known.pop(host, None)

    def _begin(self, host: str) -> "asyncio.Task[Addresses | Exception]":
        task = self._running[host] = asyncio.get_running_loop().create_task(self._look_up(host))
        task.add_done_callback(lambda _: self._running.pop(host))
        return task

    async def _look_up(self, host: str) -> Addresses | Exception:
        async with self._slots:
            found = await _in_thread(host)
        if not isinstance(found, Exception):
            self._known[host] = _Known(found, self._clock())
        return found


async def _in_thread(host: str) -> Addresses | Exception:
    """In a thread that nobody waits for at exit, unlike those of an executor: a resolver may hang for a long time."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Addresses | Exception] = loop.create_future()

    def deliver(found: Addresses | Exception) -> None:
        if not future.done():
            future.set_result(found)

    def run() -> None:
        try:
            found: Addresses | Exception = _resolve(host)
        except Exception as error:  # noqa: BLE001 - whatever a resolver makes of a name
            found = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(deliver, found)

    threading.Thread(target=run, name="look-up", daemon=True).start()
    return await future


def _resolve(host: str) -> Addresses:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
