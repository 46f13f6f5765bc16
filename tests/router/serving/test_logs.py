"""The log never stops the router, and says what it could not say."""

import logging
import os
from collections.abc import Iterator

import pytest

from pulumi_infercrane.router.serving import logs
from pulumi_infercrane.router.serving.logs import MOST_LINES, LogHandler
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, revision
from tests.router.upstream import Upstream

LINE = "x" * 200
LOGGED = 5 * MOST_LINES


class Log:
    """A handler on a pipe that nobody reads yet."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        self.handler = LogHandler(self._writing)

    def write(self, message: str, *values: object) -> None:
        self.handler.handle(logging.LogRecord("router", logging.WARNING, "", 0, message, values, None))

    def read(self) -> bytes:
        """Everything, once it is written."""
        os.set_blocking(self.reading, False)
        received = b""
        while self.handler._lines.unfinished_tasks:
            received += self._piece()
        return received + self._piece()

    def close(self) -> None:
        os.close(self.reading)
        os.close(self._writing)

    def _piece(self) -> bytes:
        try:
            return os.read(self.reading, 1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.read()
    made.close()


def test_lines_arrive_as_they_were_logged(log: Log) -> None:
    log.write("one %s", "\udc80")
    log.write("two")
    log.handler.flush()
    assert log.read() == b"one \\udc80\ntwo\n"


def test_a_log_nobody_reads_drops_lines_and_counts_them(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full pipe stopped the router, and all its streams with it."""
    monkeypatch.setattr(logs, "FLUSH_S", 0.01)
    for _ in range(LOGGED):
        log.write(LINE)
    log.handler.flush()
    assert log.handler.dropped > LOGGED / 2
    lines = log.read().splitlines()
    assert lines.count(LINE.encode()) == LOGGED - log.handler.dropped
    said = [line for line in lines if line.endswith(b" lines of this log were dropped")]
    assert sum(int(line.split()[0]) for line in said) == log.handler.dropped


async def test_an_upstream_that_takes_no_connections_is_one_line(
    router: Running, client: Client, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    await router.put({R1: revision("r1", upstream.url)})
    for _ in range(2):
        await upstream.stop()
        assert [(await client.ask(chat(False))).error for _ in range(5)] == ["connect_failed"] * 5
        await upstream.start()
        assert (await client.ask(chat(False))).status == 200
    said = [record.message for record in caplog.records if "r1-0" in record.message]
    assert len(said) == 4
    assert "refused" in said[0].lower()
    assert said[1] == "upstream r1-0 of revision r1 takes connections again"
