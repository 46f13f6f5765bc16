"""The routing layer of a service: the router process and the revisions it knows."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.process import Process, merged
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.components.route_settings import RouteArgs, table_settings
from pulumi_infercrane.components.router_process import (
    RouterArgs,
    probed_host,
    router_address,
    router_command,
    router_url,
)

PROTOCOLS = ("chat", "completions", "embeddings", "responses")
STOP_GRACE_S = 60.0
"""How long a router that is stopped may finish its streams. Not a setting: changing it would restart the router."""


def this_stack() -> str:
    """`<project>/<stack>` of the program that runs: what decisions and traffic windows name it by."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"


class Route(pulumi.CustomResource):
    """What a router is told about a service: its revisions, and where they answer. Never which one is active."""

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
        settings: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`settings` are what else the table says, as it says it."""
        props = {
            **(settings or {}),
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
        route: RouteArgs | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`revisions` are pairs of a revision and the base URL at which it answers.

        Raises:
            InvalidRouter, InvalidRoute: naming the argument.
        """
        address = router_address(args)
        settings = table_settings(route or RouteArgs(), {spec.name: spec.digest for spec, _ in revisions})
        super().__init__("infercrane:index:Routing", service, {}, opts)
        router = Process(
            f"{service}-router",
            place=str(place.root),
            process=f"{service}-router",
            argv=router_command(args, place),
            host=probed_host(address),
            port=address.port,
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
            settings={**settings, "stack": this_stack()},
            opts=merged(None, parent=self, depends_on=[router]),
        )
        self.url = pulumi.Output.from_input(f"{router_url(args)}/v1")
        self.register_outputs({"url": self.url})


def _entry(spec: RevisionSpec, url: pulumi.Output[str], alias: str) -> dict[str, Any]:
    """The engines we deploy serve under the alias itself, so nothing in a request has to be rewritten."""
    return {"digest": spec.digest, "label": spec.name, "model": alias, "dialect": spec.runtime.engine, "urls": [url]}
