"""What the route of a service says beside its revisions: limits, pins, a mirror …, by the names of the route table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.router.errors import TableInvalid
from pulumi_infercrane.router.tables.schema import read_settings
from pulumi_infercrane.router.tables.table import Health, Mirror, ServiceLimits, Timers

_KINDS = {"limits": ServiceLimits, "mirror": Mirror, "health": Health, "timers": Timers}


class InvalidRoute(ComponentError):
    """Settings of a route that break a rule; `findings` name each by its path."""

    code = "invalid_route"

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__("; ".join(f"route.{finding}" for finding in findings))
        self.findings = tuple(findings)


@dataclass(frozen=True)
class RouteArgs:
    """The settings of a service's route. What is `None` is left as others set it at the router.

    Revisions are given by their names; each must be declared. Every setting is taken as a whole: what a `Timers` does
    not say has its default.
    """

    limits: ServiceLimits | None = None
    """How much of the service runs at once, and how much more may wait."""
    pins: Sequence[str] | None = None
    """Revisions a request may ask for by header."""
    pinning: bool | None = None
    """Whether a request may ask for any of them."""
    session_header: str | None = None
    """Requests with the same value of this header stay on one side of a canary step."""
    fallback: str | None = None
    """The revision that answers while every replica of the active one is out."""
    mirror: Mirror | None = None
    """A share of the requests is copied to its `revision`, and the answers are thrown away."""
    balance: str | None = None
    """Which replica of a revision answers; for every revision."""
    health: Health | None = None
    """When a replica is left out, and how it comes back; for every revision."""
    timers: Timers | None = None
    """When the router gives an exchange up."""


def read_route(document: Mapping[str, Any], digests: Mapping[str, str]) -> RouteArgs:
    """Settings as a file has them; `digests` are those of the declared revisions, by name.

    Raises:
        InvalidRoute: with every finding.
    """
    if "stack" in document:
        raise InvalidRoute(["stack: is no setting: a route is of the stack that declares it"])
    _checked(document, digests)
    return RouteArgs(**{name: _KINDS[name](**value) if name in _KINDS else value for name, value in document.items()})


def table_settings(args: RouteArgs, digests: Mapping[str, str]) -> dict[str, Any]:
    """What is declared, as the route table says it; `digests` are those of the declared revisions, by name.

    Raises:
        InvalidRoute: with every finding.
    """
    return _checked({name: _plain(value) for name, value in vars(args).items() if value is not None}, digests)


def _plain(value: Any) -> Any:
    if isinstance(value, ServiceLimits | Mirror | Health | Timers):
        return value.document()
    return list(value) if isinstance(value, tuple) else value


def _checked(document: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    undeclared = []

    def digest(name: Any, path: str) -> Any:
        """What is no name is left for the rules of the table to refuse."""
        if isinstance(name, str) and name and name not in digests:
            undeclared.append(f"{path}: no revision {name!r} is declared; declared are {', '.join(digests)}")
        return digests.get(name, "") if isinstance(name, str) else name

    translated = _translated(document, digest)
    if undeclared:
        raise InvalidRoute(undeclared)
    try:
        return read_settings(translated, digests.values())
    except TableInvalid as invalid:
        raise InvalidRoute(invalid.findings) from None


def _translated(document: Mapping[str, Any], digest: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The same with digests in place of names."""
    found = dict(document)
    if isinstance(found.get("pins"), list):
        found["pins"] = [digest(pin, f"pins[{number}]") for number, pin in enumerate(found["pins"])]
    if "fallback" in found:
        found["fallback"] = digest(found["fallback"], "fallback")
    mirror = found.get("mirror")
    if isinstance(mirror, dict) and "revision" in mirror:
        found["mirror"] = {**mirror, "revision": digest(mirror["revision"], "mirror.revision")}
    return found
