"""Four folders share one namespace package; these rules keep it whole."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.packaging.environments import PACKAGES, ROOMS, ROOT

AT_THE_TOP_OF_A_ROOM = {"pulumi_infercrane", "__main__.py"}
IN_ONE_NAMESPACE_FOLDER = {"__main__.py", "pulumi-plugin.json"}


def entries(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.name != "__pycache__"}


@pytest.mark.parametrize("room", ROOMS)
def test_the_namespace_has_no_init_which_would_hide_the_other_rooms(room: str) -> None:
    assert not (ROOT / room / "pulumi_infercrane" / "__init__.py").exists()


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_a_typed_package(room: str) -> None:
    package = ROOT / room / "pulumi_infercrane" / room
    assert {"__init__.py", "py.typed"} <= entries(package)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_puts_no_module_of_its_own_on_a_users_path(room: str) -> None:
    stray = entries(ROOT / room) - AT_THE_TOP_OF_A_ROOM
    assert {name for name in stray if name.endswith(".py") or (ROOT / room / name).is_dir()} == set()


def test_files_beside_the_rooms_in_the_namespace_exist_once() -> None:
    found = [name for room in ROOMS for name in entries(ROOT / room / "pulumi_infercrane") - {room}]
    assert sorted(found) == sorted(set(found))
    assert set(found) <= IN_ONE_NAMESPACE_FOLDER


def test_component_modules_keep_their_annotations_as_objects() -> None:
    """Pulumi reads the annotations of component classes, which the future import would turn into text."""
    modules = (ROOT / "components" / "pulumi_infercrane" / "components").glob("*.py")
    postponed = [module.name for module in modules if "from __future__ import annotations" in module.read_text()]
    assert postponed == []


def test_the_contributors_guide_names_only_what_exists() -> None:
    named = re.findall(r"`((?!pulumi_infercrane/)(?:\w+/)+[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_mypy_checks_every_room() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert set(settings["packages"]) == set(PACKAGES)
