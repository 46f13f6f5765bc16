"""The built distribution, installed and used as people use it."""

import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.engine.engine import cache_folder
from tests.packaging.conftest import built
from tests.packaging.environments import PACKAGES, ROOMS, ROOT, Environment, checked

pytestmark = pytest.mark.packaging

IMPORT_ALL = "; ".join(f"import {package}" for package in PACKAGES)
SCRIPTS = ("infercrane", "pulumi-resource-infercrane")
NEW_MODULE = "ANSWER = 42\n"
ASK_NEW_MODULE = "from pulumi_infercrane.guard import new_module; print(new_module.ANSWER)"

RUN_PROGRAM = """
import runpy
import pulumi_infercrane.stacks.program as program
calls = []
program.main = lambda: calls.append("main")
runpy.run_path("stacks/", run_name="__main__")
print(calls)
"""

USE_BOTH = f"""
import sys
import components, guard, router, stacks
{IMPORT_ALL}
print([module.OWNER for module in (components, guard, router, stacks)])
print(sys.modules["components"].__file__)
"""


def names(wheel: Path) -> set[str]:
    return set(ZipFile(wheel).namelist())


def test_the_wheel_holds_the_four_rooms_and_nothing_else(wheel: Path, sdist: Path) -> None:
    folders = [sdist / room / "pulumi_infercrane" for room in ROOMS]
    sources = {
        str(file.relative_to(folder.parent)) for folder in folders for file in folder.rglob("*") if file.is_file()
    }
    packed = {name for name in names(wheel) if ".dist-info/" not in name}
    assert packed == sources
    assert all(re.match(rf"pulumi_infercrane/(({'|'.join(ROOMS)})/|__main__\.py$)", name) for name in packed)


def test_a_wheel_from_the_checkout_has_the_same_files(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """The unpacked source distribution stands for a checkout that nobody edits meanwhile."""
    shutil.copytree(sdist, tmp_path / "checkout")
    (tmp_path / "checkout" / "PKG-INFO").unlink()
    assert names(built("wheel", tmp_path / "checkout", tmp_path / "out")) == names(wheel)


def test_the_source_distribution_can_be_tested(sdist: Path) -> None:
    for needed in ("tests/packaging/test_distribution.py", "Makefile", "Pulumi.yaml", "LICENSE", "README.md"):
        assert (sdist / needed).is_file(), needed


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_an_environment_of_its_own_imports_everything(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environment: Environment = request.getfixturevalue(kind)
    environment.run(IMPORT_ALL, cwd=tmp_path)
    assert environment.run_module("pulumi_infercrane", "--version", cwd=tmp_path).startswith("pulumi-infercrane")
    assert all((environment.folder / "bin" / script).is_file() for script in SCRIPTS)


def test_an_editable_install_sees_a_new_file_at_once(editable: Environment, sdist: Path, tmp_path: Path) -> None:
    module = sdist / "guard" / "pulumi_infercrane" / "guard" / "new_module.py"
    module.write_text(NEW_MODULE)
    try:
        assert editable.run(ASK_NEW_MODULE, cwd=tmp_path).strip() == "42"
    finally:
        module.unlink()


def test_uv_syncs_a_clone_and_sees_a_new_file_at_once(sdist: Path, tmp_path: Path) -> None:
    uv = shutil.which("uv") or shutil.which(cache_folder() / "uv" / "bin" / "uv")
    if uv is None:
        pytest.skip("uv is not installed here")
    clone = tmp_path / "clone"
    shutil.copytree(sdist, clone)
    shutil.copy(ROOT / "uv.lock", clone)
    checked(uv, "sync", "--quiet", "--locked", "--no-dev", "--no-python-downloads", cwd=clone)
    (clone / "guard" / "pulumi_infercrane" / "guard" / "new_module.py").write_text(NEW_MODULE)
    synced = Environment(clone / ".venv")
    synced.run(IMPORT_ALL, cwd=tmp_path)
    assert synced.run(ASK_NEW_MODULE, cwd=tmp_path).strip() == "42"


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_a_program_with_folders_named_like_ours_keeps_them(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("OWNER = 'the program'\n")
    owners, components = request.getfixturevalue(kind).run(USE_BOTH, cwd=tmp_path).splitlines()
    assert owners == str(["the program"] * 4)
    assert Path(components).is_relative_to(tmp_path)


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_the_program_of_this_repository_runs_from_its_root(
    kind: str, request: pytest.FixtureRequest, sdist: Path
) -> None:
    assert request.getfixturevalue(kind).run(RUN_PROGRAM, cwd=sdist).strip() == "['main']"


def test_a_foreign_portion_of_the_namespace_is_importable(installed: Environment, tmp_path: Path) -> None:
    extra = tmp_path / "pulumi_infercrane" / "extra"
    extra.mkdir(parents=True)
    (extra / "__init__.py").touch()
    installed.run(f"{IMPORT_ALL}; import pulumi_infercrane.extra", cwd=tmp_path)
