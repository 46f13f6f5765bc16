"""Replicas that nobody dials."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from pulumi_infercrane.router.routing.replicas import Replica
from pulumi_infercrane.router.routing.routes import Endpoint

MakeEndpoints = Callable[..., list[Endpoint]]


@pytest.fixture
def endpoints() -> MakeEndpoints:
    """A factory: so many replicas, named a, b, c …, busy with so many requests each."""

    def make(*inflight: int) -> list[Endpoint]:
        made = [Endpoint(name, cast("Any", None), b"", b"", b"", Replica(0.0)) for name in "abcdefgh"[: len(inflight)]]
        for endpoint, busy in zip(made, inflight, strict=True):
            endpoint.replica.inflight = busy
        return made

    return make
