"""InferenceService: one stable endpoint, its revisions, and the release that moves it between them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.place import Place, place_of
from pulumi_infercrane.components.process import merged
from pulumi_infercrane.components.release import Release, ReleaseArgs
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.components.route_settings import RouteArgs, table_settings
from pulumi_infercrane.components.router_process import RouterArgs, refuse_unusable
from pulumi_infercrane.components.routing import Routing, this_stack
from pulumi_infercrane.components.runtime import Runtime
from pulumi_infercrane.guard import reference_folder
from pulumi_infercrane.guard.files import why


class InvalidService(ComponentError):
    """The arguments contradict each other; the message names the argument."""

    code = "invalid_service"


@dataclass(frozen=True)
class InferenceServiceArgs:
    """A service and everything that may serve it."""

    revisions: Sequence[RevisionSpec]
    """Every revision that is not retired. The active and the previous one must stay declared."""
    policy: str
    """Path of the policy file."""
    evidence: str = "evidence"
    """Folder with evidence envelopes; may be absent or empty."""
    candidate: str | None = None
    """Name of the revision that wants to become active; `None` changes nothing."""
    initial_active: str | None = None
    """Which revision serves first, when the first deployment declares several."""
    router: RouterArgs = field(default_factory=RouterArgs)
    """The router process; a change of what it is started with restarts it."""
    route: RouteArgs = field(default_factory=RouteArgs)
    """What its table says about this service; a change is made in place."""
    place: Place | None = None
    """Where sockets, logs and the ledger lie; default: the state directory of this user."""


@dataclass(frozen=True)
class Request:
    """What one run of the command line asks for, beyond what is declared. Plain `pulumi up` asks for nothing."""

    as_of: str = ""
    rollback_to: str = ""
    rollback_reason: str = ""
    override: str = ""


def request_from(environment: Mapping[str, str] = os.environ) -> Request:
    """`infercrane up`, `rollback` and `override` pass these through the engine to the program."""
    return Request(
        as_of=environment.get("INFERCRANE_AS_OF", ""),
        rollback_to=environment.get("INFERCRANE_ROLLBACK_TO", ""),
        rollback_reason=environment.get("INFERCRANE_ROLLBACK_REASON", ""),
        override=environment.get("INFERCRANE_OVERRIDE", ""),
    )


class InferenceService(pulumi.ComponentResource):
    """One OpenAI-compatible address whose content changes only on evidence.

    Example:
        service = InferenceService("chat", InferenceServiceArgs(
            revisions=[r1, r2], candidate="r2", initial_active="r1", policy="policy.yaml"))
        pulumi.export("url", service.url)
    """

    url: pulumi.Output[str]
    """Base URL of the stable endpoint, `/v1` included. Known at preview."""
    active_revision: pulumi.Output[str]
    """Name of the revision that gets the traffic."""
    previous_revision: pulumi.Output[str]
    """Name of the revision before it, still running; empty when there is none."""
    weights: pulumi.Output[dict[str, int]]
    """Percent by name of revision while a candidate has a share of the traffic; empty otherwise."""
    verdict: pulumi.Output[str]
    """`promote`, `reject` or `insufficient_evidence`; empty when nothing had to be decided."""
    route_generation: pulumi.Output[str]
    """Generation of the route's table, a decimal number; it grows with every change of the route."""

    def __init__(self, name: str, args: InferenceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("infercrane:index:InferenceService", name, {}, opts)
        _refuse_contradictions(args)
        names = {spec.digest: spec.name for spec in args.revisions}
        place = args.place or place_of(pulumi.get_project(), pulumi.get_stack())
        runtimes = [Runtime(spec, alias=name, place=place, opts=merged(None, parent=self)) for spec in args.revisions]
        served = [(runtime.spec, runtime.url) for runtime in runtimes]
        routing = Routing(
            name,
            args.router,
            place=place,
            revisions=served,
            route=args.route,
            opts=merged(None, parent=self, depends_on=runtimes),
        )
        after = [*runtimes, routing, routing.route]
        opts = merged(None, parent=self, depends_on=after, protect=True, retain_on_delete=True)
        self.release = Release(name, _release_args(name, args, place), opts)
        self.url = routing.url
        self.active_revision = self.release.active_revision.apply(lambda digest: names.get(digest, digest))
        self.previous_revision = self.release.previous_revision.apply(lambda digest: names.get(digest, digest))
        self.weights = self.release.weights.apply(lambda weights: _by_name(weights or {}, names))
        self.verdict = self.release.verdict
        generations = pulumi.Output.all(routing.route.generation, self.release.route_generation)
        self.route_generation = generations.apply(_newest)
        self.revisions: dict[str, Any] = {
            runtime.spec.name: {"digest": runtime.spec.digest, "url": runtime.url} for runtime in runtimes
        }
        self.register_outputs({"url": self.url, "activeRevision": self.active_revision, "verdict": self.verdict})


def _by_name(weights: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    return {names.get(digest, digest): int(share) for digest, share in weights.items()}


def _newest(generations: Sequence[str]) -> str:
    """A route is put before the release moves it, and a release that keeps what serves leaves the put the last word."""
    return max(generations, key=lambda generation: int(generation or 0))


def _refuse_contradictions(args: InferenceServiceArgs) -> None:
    names = [spec.name for spec in args.revisions]
    if not names:
        raise InvalidService("revisions: declare at least one revision")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidService(f"revisions: two revisions are called {twice[0]!r}: names must be unique")
    by_digest: dict[str, str] = {}
    for spec in args.revisions:
        other = by_digest.setdefault(spec.digest, spec.name)
        if other != spec.name:
            raise InvalidService(f"revisions: {other!r} and {spec.name!r} describe the same thing; keep one of them")
    table_settings(args.route, {spec.name: spec.digest for spec in args.revisions})
    refuse_unusable(args.router)
    for argument, name in (("candidate", args.candidate), ("initial_active", args.initial_active)):
        if name is not None and name not in names:
            raise InvalidService(f"{argument}: {name!r} is not declared; declared are {', '.join(names)}")


def _release_args(name: str, args: InferenceServiceArgs, place: Place) -> ReleaseArgs:
    digests = {spec.name: spec.digest for spec in args.revisions}
    request = request_from()
    folder = Path(args.evidence)
    judged = not (request.rollback_to or request.override)  # on a bad night the evidence may be broken too
    references = reference_folder(folder) if judged and folder.is_dir() else ()
    return ReleaseArgs(
        service=name,
        stack=this_stack(),
        candidate=digests[args.candidate] if args.candidate else "",
        revisions=[spec.digest for spec in args.revisions],
        control=str(place.control),
        policy={"source": Path(args.policy).name, "text": _text(args.policy)},
        evidence=[{"path": reference.path, "sha256": reference.sha256} for reference in references],
        evidence_folder=str(folder.absolute()),
        ledger=str(place.ledger),
        windows=str(place.windows),
        as_of=request.as_of,
        initial_active=digests[args.initial_active] if args.initial_active else "",
        rollback_to=digests.get(request.rollback_to, request.rollback_to),
        rollback_reason=request.rollback_reason,
        override=request.override,
    )


def _text(policy: str) -> str:
    try:
        return Path(policy).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidService(f"policy: {policy} cannot be read ({why(error)}): name an existing policy file") from error
    except UnicodeDecodeError as error:
        raise InvalidService(f"policy: {policy} is not UTF-8 text") from error
