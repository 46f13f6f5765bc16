"""The Pulumi program: the configuration of one stack → one InferenceService and its outputs."""

from pathlib import Path

import pulumi

from pulumi_infercrane.components import InferenceService, InferenceServiceArgs
from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.guard import GuardError
from pulumi_infercrane.stacks.config import StackConfig, from_engine
from pulumi_infercrane.stacks.errors import StackError


def main() -> None:
    """Declare the stack. Call it from the `__main__.py` of a project; it does nothing else.

    Raises:
        pulumi.RunError: the configuration is wrong; the engine shows the text without a traceback.
    """
    try:
        _declare()
    except (StackError, ComponentError, GuardError) as error:
        raise pulumi.RunError(str(error)) from None


def _declare() -> None:
    config = from_engine(Path(pulumi.runtime.get_root_directory()), pulumi.get_stack())
    service = InferenceService(config.service, arguments(config))
    release = service.release
    pulumi.export("url", service.url)
    pulumi.export("alias", config.service)
    pulumi.export("activeRevision", service.active_revision)
    pulumi.export("previousRevision", service.previous_revision)
    pulumi.export("candidateRevision", config.candidate or "")
    pulumi.export("weights", service.weights)
    pulumi.export("verdict", release.verdict)
    pulumi.export("action", release.action)
    pulumi.export("reasons", release.reasons)
    pulumi.export("decisionId", release.decision_id)
    pulumi.export("routeGeneration", service.route_generation)
    pulumi.export("revisions", service.revisions)


def arguments(config: StackConfig) -> InferenceServiceArgs:
    """What the component takes, from what the stack declares."""
    return InferenceServiceArgs(
        revisions=config.revisions,
        policy=str(config.policy),
        evidence=str(config.evidence),
        candidate=config.candidate,
        initial_active=config.initial_active,
        router=config.router.arguments(config.root),
        route=config.route,
    )
