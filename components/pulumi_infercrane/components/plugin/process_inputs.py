"""Inputs of `infercrane:index:Process`: defaults, checks, and what they mean for the supervisor."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.plugin.wire import UNKNOWN, contains_secret, contains_unknown, revealed
from pulumi_infercrane.components.supervision import pinned
from pulumi_infercrane.components.supervision.files import folder_of
from pulumi_infercrane.components.supervision.readiness import Probe
from pulumi_infercrane.components.supervision.starting import PORT_TOKEN, Specification, find_program

Failures = list[tuple[str, str]]

REQUIRED = ("name", "place", "argv", "readiness")
DEFAULTS: Mapping[str, Any] = {
    "env": {},
    "files": [],
    "host": "127.0.0.1",
    "port": 0,
    "runtime": "",
    "startTimeoutS": 300,
    "stopGraceS": 10,
    "maxRestarts": 5,
    "restartWindowS": 600,
    "restartBackoffS": 1,
}
KEYS = (*REQUIRED, *DEFAULTS)
READINESS_KEYS = ("kind", "path", "socket", "model")
IN_PLACE = frozenset({"readiness", "runtime", "startTimeoutS", "files"})
"""What only concerns the start; every other change is another process."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
TYPES: Mapping[str, str] = {
    "name": "string",
    "place": "string",
    "env": "object",
    "host": "string",
    "port": "integer",
    "runtime": "string",
    "startTimeoutS": "number",
    "stopGraceS": "number",
    "maxRestarts": "integer",
    "restartWindowS": "number",
    "restartBackoffS": "number",
}


def with_defaults(news: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as they are recorded: every default written out."""
    return {**DEFAULTS, **news}


def failures(inputs: Mapping[str, Any]) -> Failures:
    """What is wrong with the inputs, by property. Values not yet known are not judged."""
    found = [*_wrong_keys("", inputs, KEYS, REQUIRED)]
    for key, check in _CHECKS.items():
        value = inputs.get(key)
        if value is not None and not contains_unknown(value):
            found += [(key, reason) for reason in check(value)]
    if not {"argv", "runtime"} & {key for key, _ in found}:
        found += _missing_program(inputs)
    return found or _wrong_together(inputs)


def folder(inputs: Mapping[str, Any]) -> Path | None:
    """Where the process keeps its files; `None` while name or place are unknown."""
    if UNKNOWN in (inputs["name"], inputs["place"]):
        return None
    return folder_of(Path(inputs["place"]), inputs["name"])


def specification(inputs: Mapping[str, Any]) -> Specification:
    """What the supervisor is told; all inputs are known."""
    return Specification(
        name=inputs["name"],
        place=Path(inputs["place"]),
        argv=tuple(inputs["argv"]),
        env=revealed(inputs["env"]),
        host=inputs["host"],
        port=inputs["port"],
        stop_grace_s=inputs["stopGraceS"],
        max_restarts=inputs["maxRestarts"],
        window_s=inputs["restartWindowS"],
        backoff_s=inputs["restartBackoffS"],
    )


def probe(inputs: Mapping[str, Any], port: int) -> Probe:
    """How to see that the process serves."""
    asked = inputs["readiness"]
    paths = runtimes.find(inputs["runtime"]).readiness if inputs["runtime"] else None
    return Probe(
        base_url=url(inputs, port) or "http://localhost",
        socket=asked.get("socket", ""),
        health_path=asked.get("path") or (paths.health_path if paths else ""),
        model=asked.get("model", ""),
        models_path=paths.models_path if paths else "/v1/models",
        generation_path=paths.generation_path if paths else "/v1/chat/completions",
    )


def url(inputs: Mapping[str, Any], port: int) -> str:
    """Base URL of the process; empty when it has no port."""
    return f"http://{inputs['host']}:{port}" if port else ""


def needs_port(inputs: Mapping[str, Any]) -> bool:
    """Whether the process listens on a port that is chosen or checked for it."""
    argv = inputs["argv"] if isinstance(inputs["argv"], list) else []
    return inputs["port"] != 0 or any(isinstance(part, str) and PORT_TOKEN in part for part in argv)


def secret_texts(inputs: Mapping[str, Any]) -> list[str]:
    """Values that may not appear in messages."""
    return [str(revealed(value)) for value in inputs["env"].values() if contains_secret(value)]


def _wrong_keys(
    inside: str, given: Mapping[str, Any], known: tuple[str, ...], required: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for key in given:
        if key not in known and not key.startswith("__"):
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there is: {', '.join(known)}"
            yield inside + key, f"unknown property, {hint}"
    for key in required:
        if given.get(key) is None:
            yield inside + key, "required"


def _name(value: Any) -> Iterator[str]:
    if not (isinstance(value, str) and NAME.fullmatch(value)):
        yield f"{value!r} is no name: up to 63 of a-z 0-9 . _ -, starting with a letter or digit"


def _place(value: Any) -> Iterator[str]:
    if not (isinstance(value, str) and Path(value).is_absolute()):
        yield f"{value!r} is not an absolute path"


def _argv(value: Any) -> Iterator[str]:
    if contains_secret(value):
        yield "arguments are visible to every user of the machine: give secrets through env or a file"
    elif not (isinstance(value, list) and value and all(isinstance(part, str) for part in value)):
        yield "must be a list of texts, the program first"


def _env(value: Any) -> Iterator[str]:
    plain = revealed(value)
    if not (isinstance(plain, dict) and all(isinstance(text, str) for text in plain.values())):
        yield "must be a map from name to text"


def _files(value: Any) -> Iterator[str]:
    for number, file in enumerate(value if isinstance(value, list) else [None]):
        if not (isinstance(file, dict) and set(file) == {"path", "sha256"}):
            yield f"[{number}]: must be an object with path and sha256"
        elif problem := pinned.missing(file):
            yield f"[{number}]: {problem}"


def _host(value: Any) -> Iterator[str]:
    try:
        loopback = ipaddress.IPv4Address(value).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        yield f"{value!r} is not an IPv4 loopback address: processes are only reached through the router"


def _whole(least: int, most: int) -> Callable[[Any], Iterator[str]]:
    def check(value: Any) -> Iterator[str]:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            yield f"{value!r} is not a whole number from {least} to {most}"

    return check


def _seconds(value: Any) -> Iterator[str]:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 86_400:
        yield f"{value!r} is not a number of seconds, above 0 and at most a day"


def _runtime(value: Any) -> Iterator[str]:
    if value and value not in runtimes.names():
        yield f"no runtime {value!r}; there is: {', '.join(runtimes.names())}"


def _readiness(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "must be an object, for example {kind: http, path: /health}"
        return
    for key, reason in _wrong_keys("", value, READINESS_KEYS, ()):
        yield f"{key}: {reason}"
    if value.get("kind", "http") not in ("http", "unix"):
        yield f"kind: {value['kind']!r} is neither http nor unix"
    if (value.get("kind") == "unix") != ("socket" in value):
        yield "socket: required with kind unix, and only there"


def _missing_program(inputs: Mapping[str, Any]) -> Failures:
    argv, runtime = inputs["argv"], inputs["runtime"]
    if contains_unknown([argv, runtime]) or find_program(argv[0]) is not None:
        return []
    way_out = runtimes.find(runtime).how_to_install if runtime else "give an absolute path, or put it on PATH"
    return [("argv", f"program {argv[0]!r} not found or not executable: {way_out}")]


def _wrong_together(inputs: Mapping[str, Any]) -> Failures:
    """Checks of one input against another; each is already fine alone."""
    asked, runtime = inputs["readiness"], inputs["runtime"]
    if contains_unknown([asked, runtime, inputs["argv"]]):
        return []
    if not asked.get("path") and not runtime:
        return [("readiness", "path: required without a runtime, for example /health")]
    if asked.get("kind", "http") == "http" and not needs_port(inputs):
        return [("port", "give a port, or write {port} in argv where the free one is to go")]
    return []


_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "name": _name,
    "place": _place,
    "argv": _argv,
    "env": _env,
    "files": _files,
    "host": _host,
    "port": _whole(0, 65_535),
    "runtime": _runtime,
    "readiness": _readiness,
    "startTimeoutS": _seconds,
    "stopGraceS": _seconds,
    "maxRestarts": _whole(0, 1000),
    "restartWindowS": _seconds,
    "restartBackoffS": _seconds,
}
