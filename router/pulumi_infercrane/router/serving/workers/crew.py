"""The workers of a supervisor."""

import asyncio
import itertools
import logging
import os
import secrets
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from pulumi_infercrane.router.clients.key_documents import keys_document
from pulumi_infercrane.router.clients.keys import Key
from pulumi_infercrane.router.counting.counters import Counted
from pulumi_infercrane.router.counting.traffic import Load, Loads
from pulumi_infercrane.router.errors import WorkerFailed
from pulumi_infercrane.router.routing.replicas import ReplicaState
from pulumi_infercrane.router.serving.workers import totals
from pulumi_infercrane.router.serving.workers.channel import PROTOCOL, WORKER, Channel, Message, connected
from pulumi_infercrane.router.serving.workers.worker import Descriptors
from pulumi_infercrane.router.tables.table import RouteTable
from pulumi_infercrane.router.telemetry.metrics import PREFIX

ANSWER_S = 5.0
"""A worker that has not answered by then is killed: it might wake up and dispatch by an old table."""
LOOK_EVERY_S = 5.0
HANG_S = 15.0
"""As long may a worker be silent when nothing changes."""
START_S = 60.0
AGAIN_S = 1.0
"""Until a worker that never served is started once more."""

_log = logging.getLogger(__name__)

State = Callable[[], Message]
"""Tables and keys of this moment, as a worker needs them to start."""


class Member:
    """One worker, by its process and its channel."""

    def __init__(self, pid: int, place: int | None) -> None:
        self.pid = pid
        self.place = place
        """Whose end is made up for by another one; None for a worker of the program before."""
        self.leaving = False
        self.channel: Channel
        self.following = False
        """It has the tables, and gets every change."""
        self.serving = asyncio.Event()
        self.ended = asyncio.Event()
        self.silent = False
        self.counts = False
        """It counts for traffic windows; workers of an older program do not."""
        self.said_all = False
        """It told at its end what it had counted."""
        self.told: dict[str, Message] = {}
        """The last answer to each question; counts of a worker that is gone are those that were told of last."""
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(secrets.randbits(48))

    def ask(self, message: Message) -> asyncio.Future[Message]:
        """The answer; an empty one when the worker ends instead."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.channel.send({**message, "id": number})
        return answer

    def answered(self, message: Message) -> None:
        """An answer to a question of the program before is none to us."""
        answer = self._waiting.pop(message["id"], None)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def nobody_answers(self) -> None:
        """It is gone: whoever waits for an answer gets an empty one."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result({})

    def kill(self) -> None:
        """The channel tells when it is gone. A process that was not waited for keeps its id."""
        os.kill(self.pid, signal.SIGKILL)


class Crew:
    """Keeps `size` workers. What one of them has counted is not lost with it."""

    def __init__(self, size: int, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.members: list[Member] = []
        self.ends: Counter[str] = Counter(died=0, silent=0)
        """Workers that ended although nobody asked them to."""
        self.ended: totals.Families = {}
        """What the workers that are gone have counted."""
        self.on_counted: Callable[[Counted], None] = lambda _counted: None
        """Told what a worker counted for traffic windows, as soon as it says so."""
        self.on_lost: Callable[[], None] = lambda: None
        """Told that a worker is gone which did not say all it counted."""
        self._size = size
        self._command = command
        self._environment = dict(environment)
        self._data: tuple[int, ...] = ()
        self._lock = -1
        self._state: State
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def serving(self) -> bool:
        """Whether a client that comes now is served."""
        return any(member.serving.is_set() and not member.leaving for member in self.members)

    async def start(self, data: tuple[int, ...], lock: int, state: State) -> None:
        """Start the workers; returns when all of them serve. `data` are descriptors of listening sockets.

        Raises:
            WorkerFailed: one of them does not.
        """
        self._data, self._lock, self._state = data, lock, state
        members = [await self._spawn(place) for place in range(self._size)]
        for member in members:
            ends = [asyncio.create_task(event.wait()) for event in (member.serving, member.ended)]
            await asyncio.wait(ends, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
            if not member.serving.is_set():
                raise WorkerFailed("a worker process does not start: its reason is in the log")

    async def adopt(self, pid: int, end: socket.socket, *, counts: bool) -> Member:
        """Take on a worker of the program before, that serves."""
        member = await self._connect(Member(pid, None), end)
        member.counts = counts
        member.following = True
        member.serving.set()
        return member

    def retire(self, members: Iterable[Member]) -> None:
        """Others have taken their places: they end with their last client."""
        for member in members:
            member.leaving = True
            member.ask({"do": "retire"})

    async def watch(self) -> None:
        """Kill what hangs: new connections wait for it. Never returns."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._all({"do": "nothing"}, HANG_S)

    async def stop(self, drain_s: float, now: asyncio.Event) -> None:
        """Let open streams finish; returns when no worker is left."""
        self._stopping = True
        for member in self.members:
            member.ask({"do": "stop"})
        await self._gone(drain_s + ANSWER_S, now)
        for member in self.members:
            member.ask({"do": "cut"})
        await self._gone(1.0, None)
        for member in self.members:
            member.kill()
        await self._gone(ANSWER_S, None)

    # what changes

    async def go_by(self, table: RouteTable, *, count: bool = False) -> None:
        """Returns when every worker does, and has said what it counted of the route before."""
        await self._all({"do": "table", "table": table.document(), "count": count})

    async def delete(self, service: str) -> None:
        """Returns when no worker serves it any more."""
        await self._all({"do": "delete", "service": service})

    async def drain(self, service: str, revision: str, deadline_s: float) -> None:
        """Cut what is open on a revision after so many seconds, in every worker."""
        await self._all({"do": "drain", "service": service, "revision": revision, "deadline_s": deadline_s})

    async def take_keys(self, keys: Iterable[Key]) -> None:
        """Returns when every worker lets in who has one of these, and nobody else."""
        await self._all({"do": "keys", "keys": keys_document(keys)})

    def forget(self, service: str, revision: str) -> None:
        """A removed revision ends its series."""
        self.ended = totals.without(self.ended, service, revision)

    # what is asked

    @property
    def all_count(self) -> bool:
        """Whether every worker counts for traffic windows."""
        return all(member.counts for member in self.members if member.following)

    async def count(self, service: str = "") -> None:
        """Have every worker that can say what it counted, and count for `service` too."""
        within_s = ANSWER_S if service else HANG_S
        await self._all({"do": "count", "service": service}, within_s, counting=True)

    async def loads(self) -> Loads:
        """Of all workers together, those that leave included."""
        total: dict[tuple[str, str], Load] = {}
        for answer in await self._tell({"do": "loads"}):
            for service, revision, inflight, oldest_s, cut in answer["loads"]:
                known = total.get((service, revision), Load())
                added = Load(known.inflight + inflight, max(known.oldest_s, oldest_s), known.cut + cut)
                total[service, revision] = added
        return total

    async def replicas(self, service: str) -> dict[str, dict[str, ReplicaState]]:
        """Of all workers together: ready is what everybody sends requests to."""
        total: dict[str, dict[str, ReplicaState]] = {}
        for answer in await self._tell({"do": "replicas", "service": service}):
            for revision, upstreams in answer["replicas"].items():
                for name, values in upstreams.items():
                    states, state = total.setdefault(revision, {}), ReplicaState(*values)
                    states[name] = _joined(states[name], state) if name in states else state
        return total

    async def metrics(self, own: str) -> str:
        """Of all workers together, in the order of `own`."""
        texts = [totals.read(answer["metrics"]) for answer in await self._tell({"do": "metrics"})]
        return totals.written(totals.added([totals.read(own), self.ended, *texts, self._own_families()]))

    async def _tell(self, question: Message) -> list[Message]:
        """What every worker says; for one that is silent, what it said last."""
        following = [member for member in self.members if member.following]
        asked = {member: member.ask(question) for member in following}
        if asked:
            await asyncio.wait(asked.values(), timeout=ANSWER_S)
        what = question["do"]
        for member, answer in asked.items():
            if answer.done() and what in answer.result():
                member.told[what] = answer.result()
        return [member.told[what] for member in following if member in self.members and what in member.told]

    async def _all(self, message: Message, within_s: float | None = None, *, counting: bool = False) -> None:
        within_s = ANSWER_S if within_s is None else within_s
        members = [member for member in self.members if member.following and (member.counts or not counting)]
        asked = {member: member.ask(message) for member in members}
        if not asked:
            return
        await asyncio.wait(asked.values(), timeout=within_s)
        silent = [member for member, answer in asked.items() if not answer.done()]
        for member in silent:
            _log.error("worker %d has not answered for %g s: it is killed and replaced", member.pid, within_s)
            member.silent = True
            member.kill()
        for member in silent:
            await member.ended.wait()

    # processes

    async def _spawn(self, place: int) -> Member:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as unless_started:
            unless_started.enter_context(ours)
            descriptors = Descriptors(theirs.fileno(), self._data[place % len(self._data)], self._lock)
            environment = {**self._environment, WORKER: descriptors.written()}
            process = subprocess.Popen(self._command, env=environment, pass_fds=descriptors)  # noqa: ASYNC220
            unless_started.pop_all()
        process.returncode = 0  # waited for by us, by its id
        return await self._connect(Member(process.pid, place), ours)

    async def _connect(self, member: Member, end: socket.socket) -> Member:
        channel = Channel(lambda message: self._heard(member, message), lambda: self._lost(member))
        member.channel = channel
        self.members.append(member)
        await connected(end, channel)
        return member

    def _heard(self, member: Member, message: Message) -> None:
        for counted in message.get("counted", ()):
            self.on_counted(Counted(*counted))
        if "hello" in message:
            member.counts = message.get("counts", False)
            self._greet(member, message["hello"])
        elif "last" in message:
            member.told["metrics"] = message["last"]
            member.said_all = True
        else:
            member.answered(message)

    def _greet(self, member: Member, protocol: int) -> None:
        """From here on it gets every change, so what it starts with has to be what there is now."""
        if protocol != PROTOCOL or member.place is None:
            member.kill()
            return
        started = member.ask({"do": "start", "place": [member.place, self._size], **self._state()})
        started.add_done_callback(lambda answer: member.serving.set() if answer.result() else None)
        member.following = True

    def _lost(self, member: Member) -> None:
        task = asyncio.get_running_loop().create_task(self._bury(member))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bury(self, member: Member) -> None:
        member.kill()
        await asyncio.to_thread(os.waitpid, member.pid, 0)
        self.members.remove(member)
        if "metrics" in member.told:
            counts = totals.counted(totals.read(member.told["metrics"]["metrics"]))
            self.ended = totals.added([self.ended, counts])
        if member.following and not member.said_all:
            self.on_lost()
        member.nobody_answers()
        member.ended.set()
        if member.place is not None and not self._stopping:
            await self._replace(member, member.place)

    async def _replace(self, member: Member, place: int) -> None:
        self.ends["silent" if member.silent else "died"] += 1
        _log.error("worker %d is gone and is replaced", member.pid)
        if not member.serving.is_set():
            await asyncio.sleep(AGAIN_S)
        while not self._stopping and not await self._spawned(place):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)

    async def _spawned(self, place: int) -> bool:
        try:
            await self._spawn(place)
        except OSError as error:
            _log.error("no worker can be started: %s", error.strerror)
            return False
        return True

    async def _gone(self, most_s: float, now: asyncio.Event | None) -> None:
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._all_gone())]
        if now is not None:
            waits.append(asyncio.create_task(now.wait()))
        await asyncio.wait(waits, timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _all_gone(self) -> None:
        for member in tuple(self.members):
            await member.ended.wait()

    def _own_families(self) -> totals.Families:
        leaving = sum(member.leaving for member in self.members)
        serving = sum(member.serving.is_set() for member in self.members) - leaving
        workers = {f'{PREFIX}workers{{state="serving"}}': serving, f'{PREFIX}workers{{state="leaving"}}': leaving}
        ends = {f'{PREFIX}worker_ends_total{{reason="{reason}"}}': count for reason, count in self.ends.items()}
        return {
            f"{PREFIX}workers": totals.Family("gauge", {key: float(value) for key, value in workers.items()}),
            f"{PREFIX}worker_ends_total": totals.Family("counter", {key: float(n) for key, n in ends.items()}),
        }


def _joined(one: ReplicaState, other: ReplicaState) -> ReplicaState:
    return ReplicaState(
        one.ready and other.ready,
        one.inflight + other.inflight,
        one.answered + other.answered,
        one.failed + other.failed,
        one.ejections + other.ejections,
        max(one.failed_probes, other.failed_probes),
    )
