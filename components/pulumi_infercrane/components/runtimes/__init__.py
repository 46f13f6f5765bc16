"""Inference servers: one module each, found by name. Pure mappings, nothing is started here.

The module of engine `llama.cpp` is `llama_cpp`; it exposes `RUNTIME`, an object of type `Runtime`.
"""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from pydantic import BaseModel

from pulumi_infercrane.components.errors import ComponentError


class UnknownRuntime(ComponentError):
    """No module for an engine of that name."""

    code = "unknown_runtime"


class SettingsError(ComponentError):
    """Settings or arguments the engine cannot be given; names the setting and the nearest alternative."""

    code = "setting_refused"


@dataclass(frozen=True)
class Launch:
    """What a server is started with, besides its settings."""

    executable: str
    model_path: str
    served_name: str
    """Model name it answers to."""
    host: str = "127.0.0.1"
    port: str = "{port}"
    """A number, or the placeholder that is filled in when the process starts."""


@dataclass(frozen=True)
class Readiness:
    """How to see that a server serves. A healthy server may still be unable to answer, hence the generation."""

    health_path: str
    models_path: str = "/v1/models"
    generation_path: str = "/v1/chat/completions"


@dataclass(frozen=True)
class StartFailure:
    """A cause of a failed start, recognised by a text in the log."""

    text: str
    reason: str
    """Stable code, for example `model_corrupt`."""
    advice: str


@dataclass(frozen=True)
class StopFacts:
    """What SIGTERM does to the engine."""

    drains: bool
    """Whether it finishes open streams; if not, traffic must be gone before."""
    grace_s: float
    """How long a clean stop may take."""


class Runtime(Protocol):
    """What a module of this folder offers."""

    @property
    def name(self) -> str:
        """Name of the engine in a revision."""

    @property
    def readiness(self) -> Readiness: ...

    @property
    def failures(self) -> Sequence[StartFailure]:
        """In order of significance: the first whose text is in the log is the cause."""

    @property
    def stop(self) -> StopFacts: ...

    @property
    def how_to_install(self) -> str:
        """One sentence for those who do not have the executable."""

    def parse_settings(self, settings: Mapping[str, Any]) -> BaseModel:
        """Validated settings with every default filled in. Raises `SettingsError`."""

    def check_arguments(self, settings: BaseModel, arguments: Sequence[str]) -> None:
        """Raise `SettingsError` for a free argument that contradicts a setting or would leak a secret."""

    def command(self, launch: Launch, settings: BaseModel, arguments: Sequence[str]) -> tuple[str, ...]:
        """Program and arguments. The same input gives the same command; free arguments come last, in order."""


def find(name: str) -> Runtime:
    """The runtime of engine `name`.

    Raises:
        UnknownRuntime: with the names that exist.
    """
    module = re.sub(r"[^a-z0-9]", "_", name.lower())
    if module in (found.name for found in pkgutil.iter_modules(__path__)):
        runtime: Runtime = import_module(f"{__name__}.{module}").RUNTIME
        if runtime.name == name:
            return runtime
    raise UnknownRuntime(f"no runtime {name!r}; there is: {', '.join(names())}")


def names() -> list[str]:
    """Names of all engines, sorted."""
    modules = [found.name for found in pkgutil.iter_modules(__path__)]
    return sorted(import_module(f"{__name__}.{module}").RUNTIME.name for module in modules)


def start_failure(runtime: Runtime, log: str) -> StartFailure | None:
    """The cause of a failed start, when the log names one the engine is known for."""
    return next((failure for failure in runtime.failures if failure.text in log), None)
