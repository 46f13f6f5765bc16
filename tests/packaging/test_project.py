"""The Pulumi project that this repository is: `Pulumi.yaml` and the three lines of `stacks/__main__.py`."""

import sys
from pathlib import Path

import pytest
import yaml

from tests.engine.engine import Engine
from tests.engine.fixtures import engine as engine
from tests.engine.project import Project

ROOT = Path(__file__).parents[2]


@pytest.mark.engine
def test_the_program_reads_the_configuration_beside_pulumi_yaml(engine: Engine, tmp_path: Path) -> None:
    """The engine runs the program in `stacks/`; the stack's file lies one folder above."""
    project = Project(tmp_path / "checkout", engine.environment(tmp_path / "home", tmp_path / "state"))
    settings = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    settings["runtime"]["options"]["virtualenv"] = sys.prefix
    (project.folder / "stacks").mkdir(parents=True)
    (project.folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    (project.folder / "stacks" / "__main__.py").write_text((ROOT / "stacks" / "__main__.py").read_text())
    project.init()
    project.configure({"infercrane:servce": "chat"})
    refused = project.preview(code=None)
    assert refused.returncode != 0
    assert "error: Pulumi.test.yaml" in refused.stdout
    assert "did you mean 'service'" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert "infercrane:servce: unknown key, did you mean 'service'?" in refused.stdout
