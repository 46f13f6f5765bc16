"""New connections to upstreams."""

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pulumi_infercrane.router.routing.lookups import Lookups

_Made = TypeVar("_Made", bound=asyncio.Protocol)


class Address(NamedTuple):
    """What a connection is made to."""

    host: str
    port: int
    tls: bool


class Dialer:
    """What all dials of a process share."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lookups = Lookups(clock)
        self._tls: asyncio.Task[ssl.SSLContext] | None = None

    async def open(self, address: Address, make: Callable[[], _Made], timeout_s: float) -> _Made:
        """The protocol of a new connection.

        Raises:
            OSError: there is none, for whatever reason; nothing was sent.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._open(address, make)
        except OSError:
            self._lookups.forget(address.host)
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def _open(self, address: Address, make: Callable[[], _Made]) -> _Made:
        loop = asyncio.get_running_loop()
        tls = await self._trusted() if address.tls else None
        name = address.host if address.tls else None
        failure = OSError(f"{address.host[:100]} has no address")
        for numeric in await self._lookups.addresses(address.host):
            try:
                _, made = await loop.create_connection(make, numeric, address.port, ssl=tls, server_hostname=name)
            except OSError as error:
                failure = error
            else:
                return made
        raise failure

    async def _trusted(self) -> ssl.SSLContext:
        """The authorities of the system. Reading them takes long and needs much: once, and in a thread."""
        if self._tls is None:
            self._tls = asyncio.get_running_loop().create_task(asyncio.to_thread(ssl.create_default_context))
        return await asyncio.shield(self._tls)
