"""Changes the client keys, one at a time: validate, persist, then replace the keyring in one assignment."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pulumi_infercrane.router.clients import keys
from pulumi_infercrane.router.clients.key_store import KeyStore
from pulumi_infercrane.router.clients.keys import Grant, Issued, Key, Keyring
from pulumi_infercrane.router.clock import utc_now
from pulumi_infercrane.router.relay.relay import Relay

if TYPE_CHECKING:
    from pulumi_infercrane.router.serving.workers.crew import Crew


def take(relay: Relay, after: keys.Keys) -> None:
    """Let in who has one of these keys from now on, and nobody else."""
    relay.keyring = Keyring(after)
    for name, key in after.items():
        if key.revoked_at:
            relay.admission.forget(name)


class LiveKeys:
    """The keys of a running router.

    Requests need a key as soon as one was ever made, or when the router was started so: revoking the last key, or
    losing the files with them, opens nothing. Who loses the whole folder too has the start to rely on.
    """

    def __init__(
        self,
        relay: Relay,
        store: KeyStore,
        *,
        required: bool,
        now: Callable[[], datetime] = utc_now,
        crew: "Crew | None" = None,
    ) -> None:
        self._crew = crew
        self._relay = relay
        self._store = store
        self._now = now
        self._one_at_a_time = asyncio.Lock()
        found = store.load()
        self._keys: dict[str, Key] = found or {}
        if required or found is not None:
            relay.keyring = Keyring(self._keys)

    @property
    def required(self) -> bool:
        """Whether a request without a key is refused."""
        return self._relay.keyring is not None

    def all(self) -> tuple[Key, ...]:
        """By name, revoked ones included."""
        return tuple(key for _, key in sorted(self._keys.items()))

    async def issue(self, grant: Grant) -> tuple[Key, str]:
        """A new key and its secret; see `keys.issue` for what is refused."""
        async with self._one_at_a_time:
            return await self._issued(keys.issue(self._keys, grant, self._stamp()), grant.name, shrinks=False)

    async def rotate(self, name: str, old_valid_s: float) -> tuple[Key, str]:
        """A key and its new secret; the old ones stay valid for so many seconds."""
        async with self._one_at_a_time:
            issued = keys.rotate(self._keys, name, self._stamp(), self._stamp(old_valid_s))
            return await self._issued(issued, name, shrinks=True)

    async def revoke(self, name: str) -> None:
        """No request that begins after this may use the key; open streams go on."""
        async with self._one_at_a_time:
            await self._apply(keys.revoke(self._keys, name, self._stamp()), shrinks=True)

    async def _issued(self, issued: Issued, name: str, *, shrinks: bool) -> tuple[Key, str]:
        await self._apply(issued.keys, shrinks=shrinks)
        return issued.keys[name], issued.secret

    async def _apply(self, after: dict[str, Key], *, shrinks: bool) -> None:
        await asyncio.to_thread(self._store.save, after, shrinks=shrinks)
        self._keys = after
        take(self._relay, after)
        if self._crew is not None:
            await self._crew.take_keys(self.all())

    def _stamp(self, later_s: float = 0) -> str:
        return (self._now() + timedelta(seconds=later_s)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
