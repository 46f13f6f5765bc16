"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.lab import Lab
from tests.engine.engine import Engine
from tests.engine.fixtures import engine as engine


@pytest.fixture
def lab(engine: Engine, runtimes: dict[str, Any]) -> Iterator[Lab]:
    """An empty project with one stack, on real parts."""
    lab = Lab(engine, runtimes)
    yield lab
    lab.close()
