"""The data plane: an OpenAI-compatible streaming router that moves between revisions in one step.

    infercrane router serve --listen 127.0.0.1:8000 --control router.sock --state router/

    async with ControlClient(Path("router.sock")) as router:
        await router.put("chat", {"aliases": [...], "protocols": [...], "revisions": {...}}, if_match=None)
        await router.flip("chat", Flip(expected_active="", to="sha256:…", decision_id="sha256:…"))

| where | what |
|---|---|
| `tables/` | the route table: values, strict reading, what a call makes of it, on disk |
| `routing/` | which revision and which replica answers, and the connections to it; `balance/` has the policies |
| `protocol/` | HTTP and server-sent events on bytes, the model name in a body, the outcome of an answer |
| `relay/` | client connection → exchange → upstream connection; the timers, copies, health probes |
| `clients/` | client keys: values, strict reading, on disk; what runs, waits or is refused; what a key has left |
| `recording/` | a share of the requests on disk for a replay, when a policy file says so |
| `counting/` | what is in flight and what became of it; the same between two moments, as evidence on a canary step |
| `telemetry/` | what is told to others: metrics, access log, spans |
| `control/` | control protocol: server side, client side, how a change is applied |
| `serving/` | the process: signals, listeners, certificates; `workers/` that serve by one table |
| `export/` | the same routes on other data planes, one module each |
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulumi_infercrane.router.control.client import Changed, ControlClient, LiveService
    from pulumi_infercrane.router.errors import RouterError, RouterUnreachable
    from pulumi_infercrane.router.serving.server import Settings, serve
    from pulumi_infercrane.router.tables.calls import DrainState, Flip, Weights

__all__ = [
    "Changed",
    "ControlClient",
    "DrainState",
    "Flip",
    "LiveService",
    "RouterError",
    "RouterUnreachable",
    "Settings",
    "Weights",
    "serve",
]

_MODULES = {
    "Changed": "control.client",
    "ControlClient": "control.client",
    "DrainState": "tables.calls",
    "Flip": "tables.calls",
    "LiveService": "control.client",
    "RouterError": "errors",
    "RouterUnreachable": "errors",
    "Settings": "serving.server",
    "Weights": "tables.calls",
    "serve": "serving.server",
}

if not TYPE_CHECKING:  # with it a type checker would believe any name

    def __getattr__(name: str) -> Any:
        """Names are imported when first used: a client of the control socket loads no event loop."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
