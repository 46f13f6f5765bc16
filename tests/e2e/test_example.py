"""The example program runs as it stands in the repository, on the real engine."""

import shutil
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.lab import Lab

pytestmark = [pytest.mark.engine, pytest.mark.runtime]

EXAMPLE = Path(__file__).parents[2] / "examples" / "local"


def test_another_program_uses_the_components(lab: Lab) -> None:
    shutil.rmtree(lab.project)
    shutil.copytree(EXAMPLE, lab.project)
    settings = (lab.project / "Pulumi.yaml").read_text()
    (lab.project / "Pulumi.yaml").write_text(settings.replace("../../.venv", sys.prefix))
    model, server = lab.runtimes["models"]["tiny-a"], lab.runtimes["server"]
    lab.pulumi("stack", "init", "try")
    for key, value in {
        "model": model["path"],
        "modelSha256": model["sha256"],
        "server": server["path"],
        "serverSha256": server["sha256"],
        "listen": f"127.0.0.1:{lab.port}",
    }.items():
        lab.pulumi("config", "set", key, value, "--stack", "try")

    lab.pulumi("up", "--yes", "--stack", "try")

    outputs = lab.pulumi("stack", "output", "--json", "--stack", "try").document
    assert (outputs["activeRevision"], outputs["url"]) == ("r1", lab.url)
    listed = httpx.get(f"{outputs['url']}/models", trust_env=False).json()["data"]
    assert [entry["id"] for entry in listed] == ["chat"]
