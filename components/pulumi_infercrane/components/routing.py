"""The routing layer of a service: the router process and the revisions it knows."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.process import Process, merged
from pulumi_infercrane.components.revision import RevisionSpec

PROTOCOLS = ("chat", "completions", "embeddings", "responses")
STOP_GRACE_S = 60.0
"""How long a router that is stopped may finish its streams. Not a setting: changing it would restart the router."""


@dataclass(frozen=True)
class RouterArgs:
    """The router of a service."""

    listen: str = "127.0.0.1:8000"
    """Address of the stable endpoint, `host:port`. Loopback only, until client keys exist."""
    drain_s: float = 60.0
    """How long a revision that leaves may finish its open streams."""


class Route(pulumi.CustomResource):
    """Which revisions a router knows for a service, and where they answer. It never says which one is active."""

    generation: pulumi.Output[str]
    """Generation of the table after this route was put into it, a decimal number."""

    def __init__(
        self,
        name: str,
        *,
        control: str,
        service: str,
        aliases: Sequence[str],
        revisions: Sequence[Mapping[str, Any]],
        drain_s: float,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "control": control,
            "service": service,
            "aliases": list(aliases),
            "protocols": list(PROTOCOLS),
            "revisions": [dict(revision) for revision in revisions],
            "drainS": drain_s,
            "generation": None,
        }
        super().__init__("infercrane:index:Route", name, props, opts)


class Routing(pulumi.ComponentResource):
    """The stable endpoint: a router process of its own and the route of one service in it."""

    url: pulumi.Output[str]
    """OpenAI-compatible base URL, `/v1` included."""

    def __init__(
        self,
        service: str,
        args: RouterArgs,
        *,
        place: Place,
        revisions: Sequence[tuple[RevisionSpec, pulumi.Output[str]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`revisions` are pairs of a revision and the base URL at which it answers."""
        super().__init__("infercrane:index:Routing", service, {}, opts)
        host, _, port = args.listen.rpartition(":")
        router = Process(
            f"{service}-router",
            place=str(place.root),
            process=f"{service}-router",
            argv=_command(host, place),
            host=host,
            port=int(port),
            readiness={"kind": "unix", "path": "/livez", "socket": str(place.control)},
            stopGraceS=STOP_GRACE_S,
            opts=merged(None, parent=self),
        )
        self.route = Route(
            f"{service}-route",
            control=str(place.control),
            service=service,
            aliases=[service],
            revisions=[_entry(spec, url, service) for spec, url in revisions],
            drain_s=args.drain_s,
            opts=merged(None, parent=self, depends_on=[router]),
        )
        self.url = pulumi.Output.from_input(f"http://{args.listen}/v1")
        self.register_outputs({"url": self.url})


def _command(host: str, place: Place) -> list[str]:
    serve = ["-m", "pulumi_infercrane", "router", "serve", "--listen", f"{host}:{{port}}"]
    return [sys.executable, *serve, "--control", str(place.control), "--state", str(place.router)]


def _entry(spec: RevisionSpec, url: pulumi.Output[str], alias: str) -> dict[str, Any]:
    """The engines we deploy serve under the alias itself, so nothing in a request has to be rewritten."""
    return {"digest": spec.digest, "label": spec.name, "model": alias, "dialect": spec.runtime.engine, "urls": [url]}
