"""Fixtures around the real engine; a folder's conftest.py imports those it wants."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.engine.engine import Engine, EngineError, prepare
from tests.engine.project import Project


class NewProject(Protocol):
    """Writes a project, creates its stack, and destroys what it holds when the test is over."""

    def __call__(
        self, program: str, config: Mapping[str, Any] | None = None, *, name: str = ..., **settings: Any
    ) -> Project: ...


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine found or built; without one every test that needs it fails with the ways out."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # a build takes minutes: its progress must be seen
            return prepare()
    except EngineError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def engine_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the engine's plugins and state, of this test alone."""
    return tmp_path_factory.mktemp("engine")


@pytest.fixture
def new_project(engine: Engine, engine_home: Path, tmp_path: Path) -> Iterator[NewProject]:
    """`new_project(program, config)` → a `Project` whose stack exists and is selected."""
    environment = engine.environment(engine_home / "home", engine_home / "state")
    projects: list[Project] = []

    def create(
        program: str, config: Mapping[str, Any] | None = None, *, name: str = "sample", **settings: Any
    ) -> Project:
        project = Project(tmp_path / name, environment)
        project.write(program, name=name, python=sys.prefix, **settings)
        project.init()
        project.configure(config or {})
        projects.append(project)
        return project

    yield create
    for project in projects:
        project.destroy()
