import sys
import tarfile
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment, checked


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    return unpacked(built("sdist", ROOT, tmp_path_factory.mktemp("sdist")))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    return built("wheel", sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with our wheel."""
    environment = Environment.create(tmp_path_factory.mktemp("installed"))
    environment.install(str(wheel))
    return environment


@pytest.fixture(scope="session")
def editable(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with an editable install of the unpacked source distribution."""
    environment = Environment.create(tmp_path_factory.mktemp("editable"))
    environment.install("--editable", str(sdist))
    return environment


def built(target: str, source: Path, folder: Path) -> Path:
    checked(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder), cwd=source)
    (product,) = folder.iterdir()
    return product


def unpacked(archive: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    return archive.parent / archive.name.removesuffix(".tar.gz")
