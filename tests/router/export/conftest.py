"""A route table in one line, and a folder for it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router.export._place import Place, read_place
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import declared


def table_of(revisions: Mapping[str, Any], active: str = "", generation: int = 1, **more: Any) -> RouteTable:
    """A table of the service `chat`."""
    return RouteTable("chat", generation, read_declared(declared(revisions, **more)), active, f"decision-{generation}")


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """A new folder of a short name by target: control sockets lie in it."""

    def make(target: str) -> Place:
        folder: Path = tmp_path_factory.mktemp("x")
        return read_place(folder / target, f"127.0.0.1:{free_port()}")

    return make
