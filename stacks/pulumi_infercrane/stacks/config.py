"""`Pulumi.<stack>.yaml` → typed configuration. Every error names the file, the line and the way out."""

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.revision import Name, RevisionSpec, Text
from pulumi_infercrane.components.route_settings import InvalidRoute, RouteArgs, read_route
from pulumi_infercrane.components.router_process import (
    MAX_WORKERS,
    InvalidRouter,
    RouterArgs,
    TlsFiles,
    read_address,
    read_proxies,
    router_address,
)
from pulumi_infercrane.guard.findings import YAML, Finding, findings
from pulumi_infercrane.stacks.errors import ConfigError
from pulumi_infercrane.stacks.project import Project
from pulumi_infercrane.stacks.yaml_lines import Located, read_yaml

NAMESPACE = "infercrane"


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TlsConfig(_Block):
    """The `tls` block of the router."""

    cert: Text
    key: Text


class RouterConfig(_Block):
    """The `router` block: what the process is started with, and `drainS`."""

    requireKeys: bool = False  # noqa: N815 - as in the file
    listen: str = "127.0.0.1:8000"
    """Loopback only, unless keys are required."""
    drainS: float = Field(default=60.0, ge=0, le=3600)  # noqa: N815 - as in the file
    tls: TlsConfig | None = None
    workers: int = Field(default=0, ge=0, le=MAX_WORKERS)
    maxConnections: int | None = Field(default=None, ge=1)  # noqa: N815 - as in the file
    trustedProxies: list[Text] = Field(default_factory=list)  # noqa: N815 - as in the file
    idleS: float | None = Field(default=None, gt=0, allow_inf_nan=False)  # noqa: N815 - as in the file
    maxBody: int | None = Field(default=None, ge=1)  # noqa: N815 - as in the file
    status: Text | None = None
    accessLog: Text | None = None  # noqa: N815 - as in the file
    record: Text | None = None

    @field_validator("listen", "status")
    @classmethod
    def _can_be_listened_on(cls, text: str, info: ValidationInfo) -> str:
        try:
            if info.field_name == "listen":
                router_address(RouterArgs(listen=text, require_keys=info.data.get("requireKeys", False)))
            else:
                read_address("status", text, keyed=True)
        except InvalidRouter as error:
            raise ValueError(error.problem) from None
        return text

    @field_validator("trustedProxies")
    @classmethod
    def _can_be_trusted(cls, networks: list[str]) -> list[str]:
        try:
            if networks:
                read_proxies("trustedProxies", networks)
        except InvalidRouter as error:
            raise ValueError(error.problem) from None
        return networks

    def arguments(self, root: Path) -> RouterArgs:
        """What the component takes; relative paths are meant from `root`."""
        log = self.accessLog or ""
        return RouterArgs(
            listen=self.listen,
            drain_s=self.drainS,
            require_keys=self.requireKeys,
            tls=TlsFiles(str(root / self.tls.cert), str(root / self.tls.key)) if self.tls else None,
            workers=self.workers,
            max_connections=self.maxConnections,
            trusted_proxies=tuple(self.trustedProxies),
            idle_s=self.idleS,
            max_body=self.maxBody,
            status=self.status or "",
            access_log=log if log in ("", "-") else str(root / log),
            record=str(root / self.record) if self.record else "",
        )


class _Document(_Block):
    """The keys of the `infercrane` namespace."""

    service: Name
    revisions: dict[Name, dict[str, Any]] = Field(min_length=1)
    candidate: Name | None = None
    initialActive: Name | None = None  # noqa: N815 - as in the file
    policy: Text = "policy.yaml"
    evidence: Text = "evidence"
    router: RouterConfig = RouterConfig()
    route: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Where:
    """Where a stack declares a revision's model file and its server: file and line of each, for people."""

    model: str
    executable: str


@dataclass(frozen=True)
class StackConfig:
    """What one stack declares. Paths inside are absolute."""

    root: Path
    service: str
    revisions: tuple[RevisionSpec, ...]
    candidate: str | None
    initial_active: str | None
    policy: Path
    evidence: Path
    router: RouterConfig
    route: RouteArgs
    where: Mapping[str, Where] = field(default_factory=dict)
    """By name of revision."""

    @property
    def candidate_digest(self) -> str:
        """Digest of the candidate, empty when none is declared."""
        return self.revision(self.candidate).digest if self.candidate else ""

    def revision(self, name: str) -> RevisionSpec:
        """The declared revision called `name`.

        Raises:
            ConfigError: naming the nearest one.
        """
        found = next((spec for spec in self.revisions if spec.name == name), None)
        if found is None:
            known = [spec.name for spec in self.revisions]
            raise ConfigError(f"no revision {name!r}{_nearest(name, known)}; declared are {', '.join(known)}")
        return found

    def name_of(self, digest: str) -> str:
        """Short name of a declared revision, the digest itself when it is not declared."""
        return next((spec.name for spec in self.revisions if spec.digest == digest), digest)


def from_file(project: Project) -> StackConfig:
    """Read the stack's settings file.

    Raises:
        ConfigError: naming file, line, field and the nearest valid key.
    """
    located = read_yaml(project.settings)
    values = {
        key.removeprefix(f"{NAMESPACE}:"): value
        for key, value in _settings(located, project.settings).items()
        if str(key).startswith(f"{NAMESPACE}:")
    }
    return _parse(values, project.folder, project.settings, located)


def _settings(located: Located, file: Path) -> Mapping[Any, Any]:
    """The `config` block, ours and others'."""
    block = located.value.get("config") or {}
    if not isinstance(block, Mapping):
        raise ConfigError(f"{_where(file, located.at(('config',)))}: config: a mapping was expected")
    return block


def from_engine(root: Path, stack: str, environment: Mapping[str, str] = os.environ) -> StackConfig:
    """Read what the engine hands to the program; lines are those of the settings file, where it has the key."""
    settings = root / f"Pulumi.{stack}.yaml"
    located = read_yaml(settings) if settings.is_file() else Located({}, {})
    given = json.loads(environment.get("PULUMI_CONFIG", "{}"))
    secret = json.loads(environment.get("PULUMI_CONFIG_SECRET_KEYS", "[]"))
    values: dict[str, Any] = {}
    for key, text in given.items():
        namespace, _, name = key.partition(":")
        if namespace == NAMESPACE:
            if key in secret:
                raise ConfigError(f"{settings}: {key} is a secret; revisions take secrets only by reference")
            values[name] = _object(text)
    return _parse(values, root, settings, located)


def _object(text: str) -> Any:
    """Objects reach a program as JSON text, plain values as they are."""
    try:
        return json.loads(text) if text.startswith(("{", "[")) else text
    except ValueError:
        return text


def _parse(values: Mapping[str, Any], root: Path, file: Path, located: Located) -> StackConfig:
    try:
        document = _Document.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_explain(error, file, located, ("config",), _Document, NAMESPACE)) from error
    read = [_revision(name, value, root, file, located) for name, value in document.revisions.items()]
    revisions = tuple(spec for spec, _ in read)
    names = [spec.name for spec in revisions]
    for key, chosen in (("candidate", document.candidate), ("initialActive", document.initialActive)):
        if chosen is not None and chosen not in names:
            line = located.at(("config", f"{NAMESPACE}:{key}"))
            raise ConfigError(f"{_where(file, line)}: {key}: {chosen!r} is not declared{_nearest(chosen, names)}")
    return StackConfig(
        root=root,
        service=document.service,
        revisions=revisions,
        candidate=document.candidate,
        initial_active=document.initialActive,
        policy=root / document.policy,
        evidence=root / document.evidence,
        router=document.router,
        route=_route(document.route, revisions, file, located),
        where={spec.name: where for spec, where in read},
    )


def _route(document: Mapping[str, Any], revisions: Sequence[RevisionSpec], file: Path, located: Located) -> RouteArgs:
    """The `route` block, by the rules of the route table."""
    try:
        return read_route(document, {spec.name: spec.digest for spec in revisions})
    except InvalidRoute as error:
        raise ConfigError("\n".join(_located(finding, file, located) for finding in error.findings)) from None


def _located(finding: str, file: Path, located: Located) -> str:
    """A finding about the block, with its line. It begins with the path of a field: `limits.max_queue` or `pins[0]`."""
    path = finding.partition(": ")[0].replace("[", ".").replace("]", "").split(".")
    line = located.at(("config", f"{NAMESPACE}:route", *path))
    return f"{_where(file, line)}: {NAMESPACE}:route.{finding}"


def _revision(
    name: str, value: Mapping[str, Any], root: Path, file: Path, located: Located
) -> tuple[RevisionSpec, Where]:
    prefix: tuple[str, ...] = ("config", f"{NAMESPACE}:revisions", name)
    if set(value) == {"file"}:
        file = _inside(root, str(value["file"]), file, located.at(prefix))
        located, prefix = read_yaml(file), ()
        value = located.value
    try:
        spec = RevisionSpec.model_validate({**value, "name": name})
    except ValidationError as error:
        raise ConfigError(_explain(error, file, located, prefix, RevisionSpec)) from error
    except ComponentError as error:
        key = ("runtime", "engine" if error.code == "unknown_runtime" else "settings")
        raise ConfigError(f"{_where(file, located.at((*prefix, *key)))}: revision {name}: {error}") from error
    keys = (("model", "path"), ("runtime", "executable"))
    return _absolute(spec, root), Where(*(_where(file, located.at((*prefix, *key))) for key in keys))


def _absolute(spec: RevisionSpec, root: Path) -> RevisionSpec:
    """Relative paths in a revision are meant from the project's folder; names without a slash are found on PATH."""
    model = spec.model.model_copy(update={"path": str(root / Path(spec.model.path).expanduser())})
    executable = spec.runtime.executable
    if "/" in executable:
        executable = str(root / Path(executable).expanduser())
    return spec.model_copy(
        update={"model": model, "runtime": spec.runtime.model_copy(update={"executable": executable})}
    )


def _inside(root: Path, path: str, file: Path, line: int | None) -> Path:
    resolved = (root / path).resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise ConfigError(f"{_where(file, line)}: {path} lies outside the project")
    return resolved


def _explain(
    error: ValidationError,
    file: Path,
    located: Located,
    prefix: tuple[str, ...],
    model: type[BaseModel],
    namespace: str = "",
) -> str:
    """One line per finding: file, line, field, what is wrong, and the nearest valid key."""
    found = findings(error, model, YAML)
    return "\n".join(_finding(finding, file, located, prefix, namespace) for finding in found)


def _finding(finding: Finding, file: Path, located: Located, prefix: tuple[str, ...], namespace: str) -> str:
    path = finding.path
    in_file = (f"{namespace}:{path[0]}", *path[1:]) if namespace and path else path
    return f"{_where(file, located.at((*prefix, *in_file)))}: {'.'.join(in_file)}: {finding.text}"


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if near:
        return f", did you mean {near[0]!r}?"
    return f"; valid are {', '.join(known)}" if known else ""


def _where(file: Path, line: int | None) -> str:
    return f"{file.name}:{line}" if line else file.name
