"""A process that serves clients by what the supervisor tells it.

It listens once it has the tables. When it leaves, it answers what is open, following changes as before; without its
supervisor it dispatches nothing any more, and keeps the lock of the state directory until the last stream has ended.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import uvloop

from pulumi_infercrane.router.clients.key_documents import read_keys
from pulumi_infercrane.router.control.live import go_by, replicas_of
from pulumi_infercrane.router.control.live_keys import take
from pulumi_infercrane.router.relay.relay import Relay
from pulumi_infercrane.router.serving.collector import spare_what_stays
from pulumi_infercrane.router.serving.front import Front, most_connections, open_front
from pulumi_infercrane.router.serving.server import Settings, build_relay, certificate_of, tell
from pulumi_infercrane.router.serving.workers.channel import PROTOCOL, WORKER, Channel, Message, connected
from pulumi_infercrane.router.serving.workers.shares import Place, share, share_of_keys, share_of_table
from pulumi_infercrane.router.tables.schema import read_table
from pulumi_infercrane.router.tables.table import RouteTable
from pulumi_infercrane.router.tables.transitions import removed_revisions
from pulumi_infercrane.router.telemetry.metrics import in_slices, pieces

_log = logging.getLogger(__name__)


class Descriptors(NamedTuple):
    """What a worker inherits."""

    channel: int
    data: int
    lock: int

    def written(self) -> str:
        return ",".join(map(str, self))


def work(settings: Settings, environment: Mapping[str, str]) -> None:
    """Serve until the supervisor, or a signal, says otherwise.

    Raises:
        RouterError: the certificate or the recording cannot be used.
    """
    descriptors = Descriptors(*map(int, environment[WORKER].split(",")))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    uvloop.run(_work(settings, environment, descriptors))


async def _work(settings: Settings, environment: Mapping[str, str], descriptors: Descriptors) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor has it too, and says what to do
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    worker = Worker(settings, build_relay(settings, environment), socket.socket(fileno=descriptors.data))
    channel = Channel(worker.do, worker.left_alone)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await connected(socket.socket(fileno=descriptors.channel), channel)
    channel.send({"hello": PROTOCOL, "counts": True})
    await worker.serve(channel)
    channel.send({"last": worker.metrics(), **worker.counted()})
    channel.close()
    await worker.alone.wait()


class Worker:
    """The data plane of this process, as far as the supervisor is concerned."""

    def __init__(self, settings: Settings, relay: Relay, data: socket.socket) -> None:
        self.alone = asyncio.Event()
        """The channel is closed."""
        self._settings = settings
        self._relay = relay
        self._data = data
        self._tables: dict[str, RouteTable] = {}
        self._place = Place(0, 1)
        self._started = asyncio.Event()
        self._leaving = asyncio.Event()
        self._now = asyncio.Event()
        self._answers: list[Message] = []
        self._doing: dict[str, Callable[[Message], Message | None]] = {
            "start": self._start,
            "table": self._table,
            "delete": self._delete,
            "drain": self._drain,
            "keys": self._keys,
            "loads": lambda _message: self._loads(),
            "replicas": self._replicas,
            "count": self._count,
            "nothing": lambda _message: None,
            "retire": lambda _message: self._retire(),
            "stop": lambda _message: self.stop(),
            "cut": lambda _message: self._cut(),
        }

    async def serve(self, channel: Channel) -> None:
        """From the first tables to the last stream."""
        self._channel = channel
        await self._started.wait()
        if not self._leaving.is_set():
            front = await self._open()
            await self._leaving.wait()
            front.stop_accepting()
            await front.finish(self._settings.drain_s, self._now)
            front.close()

    def do(self, message: Message) -> None:
        """Do what the supervisor says, and say so. What cannot be followed ends the dispatching."""
        if message["do"] == "metrics":
            self._telling = asyncio.get_running_loop().create_task(self._tell_metrics(message["id"]))
            return
        try:
            answer = self._doing[message["do"]](message)
        except Exception:  # noqa: BLE001 - logged; whatever it was, the old table is not gone by any more
            _log.exception("cannot follow %s: no request is dispatched any more", message.get("do"))
            self.stop()
            answer = None
        if message["do"] != "start":
            self._channel.send({**(answer or {}), "id": message["id"]})

    def left_alone(self) -> None:
        """The supervisor is gone: whoever comes after it may change the table without us."""
        self.alone.set()
        self.stop()

    def stop(self) -> None:
        """Answer nothing new, and leave when the last answer has ended."""
        self._relay.finish_up()
        self._leave()

    def metrics(self) -> Message:
        """Everything counted, at once: when no client waits any more."""
        return {"metrics": "".join(self._pieces())}

    async def _tell_metrics(self, number: int) -> None:
        self._channel.send({"metrics": await in_slices(self._pieces()), "id": number})

    def _pieces(self) -> Iterator[str]:
        relay = self._relay
        return pieces(relay.routes, relay.traffic, tuple(relay.admission.queues.values()))

    def counted(self) -> Message:
        """What was counted for traffic windows since the last time."""
        return {"counted": [list(counted) for counted in self._relay.counters.take()]}

    def _count(self, message: Message) -> Message:
        table = self._tables.get(message["service"])
        if table is not None:
            self._relay.counters.begin(table)
        return self.counted()

    def _loads(self) -> Message:
        return {"loads": [[*key, *load] for key, load in self._relay.traffic.loads().items()]}

    def _replicas(self, message: Message) -> Message:
        found = replicas_of(self._relay.routes, message["service"])
        return {"replicas": {revision: {u: list(state) for u, state in one.items()} for revision, one in found.items()}}

    async def _open(self) -> Front:
        relay, settings, place = self._relay, self._settings, self._place
        relay.max_connections = share(most_connections(settings.max_connections), place)
        if (policy := settings.record) is not None:
            folder, most = policy.folder / f"worker-{place.number}", share(policy.max_bytes, place)
            settings = replace(settings, record=replace(policy, folder=folder, max_bytes=most))
        tell(relay, settings)
        front = await open_front(relay, self._data, certificate_of(settings))
        spare_what_stays()
        self._channel.send({"id": self._start_id})
        return front

    def _start(self, message: Message) -> None:
        self._place, self._start_id = Place(*message["place"]), message["id"]
        self._tables = {name: self._share(document) for name, document in message["tables"].items()}
        go_by(self._relay, self._tables)
        for service in message.get("counting", ()):
            self._relay.counters.begin(self._tables[service])
        if message["keys"] is not None:
            self._keys(message)
        self._started.set()

    def _table(self, message: Message) -> Message:
        after = self._share(message["table"])
        before = self._tables.get(after.service)
        self._tables = {**self._tables, after.service: after}
        go_by(self._relay, self._tables)
        self._relay.counters.follow(after, count=message.get("count", False))
        for digest in removed_revisions(before, after):
            self._relay.traffic.forget(after.service, digest)
        return self.counted()

    def _delete(self, message: Message) -> Message:
        gone = self._tables.pop(message["service"])
        go_by(self._relay, self._tables)
        self._relay.counters.end(gone.service)
        for digest in gone.declared.revisions:
            self._relay.traffic.forget(gone.service, digest)
        return self.counted()

    def _drain(self, message: Message) -> None:
        traffic = self._relay.traffic.of(message["service"], message["revision"])
        traffic.drain_until = self._relay.clock() + message["deadline_s"]

    def _keys(self, message: Message) -> None:
        take(self._relay, share_of_keys(read_keys(message["keys"]), self._place))

    def _share(self, document: Any) -> RouteTable:
        return share_of_table(read_table(document), self._place)

    def _retire(self) -> None:
        """Others take the new connections; ours end after their next answer."""
        self._relay.ending = True
        self._leave()

    def _cut(self) -> None:
        self.stop()
        self._now.set()

    def _leave(self) -> None:
        self._leaving.set()
        self._started.set()
