"""A client that plays the engine: it starts a provider process and calls it over gRPC."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2 as p
from pulumi.runtime.proto import provider_pb2_grpc, status_pb2

from pulumi_infercrane.components.plugin import wire
from tests.engine.fixtures import engine as engine
from tests.engine.fixtures import engine_home as engine_home
from tests.engine.fixtures import new_project as new_project

REAL = ("-m", "pulumi_infercrane.components.plugin.server")
TOY = (str(Path(__file__).with_name("toy_provider.py")),)
Values = dict[str, Any]


class Provider:
    """The provider process and a stub to it; property values are plain Python."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.absolute_max_metadata_size", 16 * 1024 * 1024),
        ]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{int(self.first_line)}", options=options)
        self.stub = provider_pb2_grpc.ResourceProviderStub(self.channel)

    def close(self) -> None:
        self.channel.close()
        self.process.terminate()
        with self.process:
            self.process.wait(timeout=10)

    def check(self, urn: str, news: Values, **olds: Values) -> Any:
        encoded = {name: wire.encode(value) for name, value in olds.items()}
        return self.stub.Check(p.CheckRequest(urn=urn, news=wire.encode(news), **encoded))

    def checked(self, urn: str, news: Values) -> Values:
        """Inputs as the engine records them after a check without failures."""
        answer = self.check(urn, news)
        assert not answer.failures
        return wire.decode(answer.inputs)

    def diff(self, urn: str, inputs: Values, outputs: Values, news: Values) -> Any:
        olds = {"old_inputs": wire.encode(inputs), "olds": wire.encode(outputs)}
        return self.stub.Diff(p.DiffRequest(urn=urn, id="id", news=wire.encode(news), **olds))

    def create(self, urn: str, inputs: Values, *, preview: bool = False, timeout: float = 0) -> Any:
        properties = wire.encode(inputs)
        return self.stub.Create(p.CreateRequest(urn=urn, properties=properties, preview=preview, timeout=timeout))

    def read(self, urn: str, name: str, inputs: Values, outputs: Values) -> Any:
        values = {"inputs": wire.encode(inputs), "properties": wire.encode(outputs)}
        return self.stub.Read(p.ReadRequest(urn=urn, id=name, **values))

    def update(self, urn: str, name: str, inputs: Values, outputs: Values, *, preview: bool = False) -> Any:
        news = wire.encode(inputs)
        olds = {"old_inputs": news, "olds": wire.encode(outputs)}
        return self.stub.Update(p.UpdateRequest(urn=urn, id=name, news=news, preview=preview, **olds))

    def delete(self, urn: str, name: str, inputs: Values, outputs: Values) -> None:
        values = {"old_inputs": wire.encode(inputs), "properties": wire.encode(outputs)}
        self.stub.Delete(p.DeleteRequest(urn=urn, id=name, **values))


@pytest.fixture(scope="session")
def partial_failure() -> Callable[[grpc.RpcError], Any]:
    """Reads what the engine would record out of a failed call."""

    def read(error: grpc.RpcError) -> Any:
        status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
        detail = p.ErrorResourceInitFailed()
        assert status.details[0].Unpack(detail)
        return detail

    return read


@pytest.fixture
def start() -> Iterator[Callable[..., Provider]]:
    """Starts provider processes that are gone after the test."""
    started: list[Provider] = []

    def launch(*arguments: str) -> Provider:
        started.append(Provider(*arguments))
        return started[-1]

    yield launch
    for provider in started:
        provider.close()


@pytest.fixture(scope="session")
def real() -> tuple[str, ...]:
    """Arguments of Python that start the real provider."""
    return REAL


@pytest.fixture(scope="module")
def toy() -> Iterator[Provider]:
    provider = Provider(*TOY)
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider(*REAL)
    yield provider
    provider.close()
