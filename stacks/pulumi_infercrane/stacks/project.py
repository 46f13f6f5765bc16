"""A Pulumi project on disk and one stack of it, as the command line sees them."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.components.place import Place, place_of, state_directory
from pulumi_infercrane.stacks.errors import ConfigError
from pulumi_infercrane.stacks.yaml_lines import read_yaml


@dataclass(frozen=True)
class Project:
    """One stack of the project in `folder`."""

    folder: Path
    name: str
    stack: str
    backend: str
    """URL of the backend without credentials, as far as it is known; only used to tell stacks apart."""

    @property
    def settings(self) -> Path:
        """`Pulumi.<stack>.yaml`."""
        return self.folder / f"Pulumi.{self.short}.yaml"

    @property
    def short(self) -> str:
        """Name of the stack without organisation and project."""
        return self.stack.rpartition("/")[2]

    @property
    def qualified(self) -> str:
        """`<project>/<stack>`, the name that decisions carry."""
        return f"{self.name}/{self.short}"

    @property
    def place(self) -> Place:
        """Where the stack's processes, its router and its ledger are."""
        return place_of(self.name, self.short)

    @property
    def operations(self) -> Path:
        """Where the journal, the lock and the files of each operation are: one folder per backend and stack."""
        identity = f"{self.backend}\n{self.qualified}".encode()
        return state_directory() / "operations" / hashlib.sha256(identity).hexdigest()[:16]


def find_project(start: Path, stack: str | None) -> Project:
    """The project in `start` or the nearest folder above it.

    Raises:
        ConfigError: no Pulumi.yaml, no stack chosen, or no settings for it.
    """
    start = start.absolute()
    folder = next((path for path in (start, *start.parents) if (path / "Pulumi.yaml").is_file()), None)
    if folder is None:
        raise ConfigError(f"no Pulumi.yaml in {start} or above: run this in a Pulumi project, or name one with -C")
    settings = read_yaml(folder / "Pulumi.yaml").value
    chosen = stack or os.environ.get("PULUMI_STACK") or _only_stack(folder)
    project = Project(folder, str(settings.get("name", folder.name)), chosen, _backend(settings))
    if not project.settings.is_file():
        known = ", ".join(_stacks(folder)) or "none"
        raise ConfigError(
            f"{project.settings}: no such file; `infercrane` reads a stack's settings there; there are: {known}"
        )
    return project


def _stacks(folder: Path) -> list[str]:
    return sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in folder.glob("Pulumi.*.yaml"))


def _only_stack(folder: Path) -> str:
    stacks = _stacks(folder)
    if not stacks:
        raise ConfigError(f"no Pulumi.<stack>.yaml in {folder}: write one, then `pulumi stack init <stack>`")
    if len(stacks) != 1:
        raise ConfigError(f"which stack? name it with -s (in {folder}: {', '.join(stacks)})")
    return stacks[0]


def _backend(settings: Mapping[str, Any]) -> str:
    backend = settings.get("backend")
    declared = backend.get("url") if isinstance(backend, Mapping) else None
    return _without_credentials(os.environ.get("PULUMI_BACKEND_URL") or declared or _logged_in())


def _logged_in() -> str:
    home = Path(os.environ.get("PULUMI_HOME") or "~/.pulumi").expanduser()
    try:
        return str(json.loads((home / "credentials.json").read_text(encoding="utf-8")).get("current", ""))
    except (OSError, ValueError):
        return ""


def _without_credentials(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2] if separator else url
