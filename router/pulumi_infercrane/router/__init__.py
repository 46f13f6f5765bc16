"""The data plane: an OpenAI-compatible streaming router that moves between revisions in one step.

    infercrane router serve --listen 127.0.0.1:8000 --control router.sock --state router/

    async with ControlClient(Path("router.sock")) as router:
        await router.put("chat", {"aliases": [...], "protocols": [...], "revisions": {...}}, if_match=None)
        await router.flip("chat", Flip(expected_active="", to="sha256:…", decision_id="sha256:…"))

| where | what |
|---|---|
| `table`, `schema`, `reading`, `transitions` | the route table: values, strict reading, what a call makes of it |
| `store`, `live`, `durable` | tables on disk; applying a change: validate, persist, replace the routes at once |
| `routes` | the tables compiled for the request path; upstream keys and pools are bound here |
| `split`, `replicas`, `balance/` | shares of a canary step; which replicas take requests, and which takes the next |
| `protocol/` | HTTP and server-sent events on bytes, the model name in a body, the outcome of an answer |
| `relay/` | client connection → dispatch → exchange → upstream connection; the timers, copies, health probes |
| `keys`, `key_documents`, `key_store`, `live_keys` | client keys: values, strict reading, on disk, applying a change |
| `credentials`, `admission`, `budgets` | whose request it is; what runs, waits or is refused; what a key has left |
| `recording/` | a share of the requests on disk for a replay, when a policy file says so |
| `traffic`, `metrics`, `readiness` | what is in flight and what became of it |
| `tally`, `counters` | the same for each revision behind a route, as far as traffic windows ask for it |
| `windows`, `window_journal`, `live_windows` | windows on disk, of one process or of all workers, for canary steps |
| `admin`, `control`, `calls`, `errors` | control protocol: server side, client side, and the values of both |
| `server`, `front`, `sockets`, `addresses` | the process: signals, listeners, which addresses are acceptable |
| `tls`, `notify` | the certificate clients are shown; what systemd is told |
| `workers/` | several processes that serve by one table, and how one program follows another |

Exporters to other data planes belong in a folder `export/`, one module each.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulumi_infercrane.router.calls import DrainState, Flip, Weights
    from pulumi_infercrane.router.control import Changed, ControlClient, LiveService
    from pulumi_infercrane.router.errors import RouterError, RouterUnreachable
    from pulumi_infercrane.router.server import Settings, serve

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
    "Changed": "control",
    "ControlClient": "control",
    "DrainState": "calls",
    "Flip": "calls",
    "LiveService": "control",
    "RouterError": "errors",
    "RouterUnreachable": "errors",
    "Settings": "server",
    "Weights": "calls",
    "serve": "server",
}

if not TYPE_CHECKING:  # with it a type checker would believe any name

    def __getattr__(name: str) -> Any:
        """Names are imported when first used: a client of the control socket loads no event loop."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
