"""The Release resource as a program sees it: `Release(...).active_revision` is what serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

_OUTPUTS = (
    "activeRevision",
    "previousRevision",
    "servedRevision",
    "verdict",
    "action",
    "decisionType",
    "decisionId",
    "reasons",
    "expiresAt",
    "routeGeneration",
    "weights",
)


@dataclass(frozen=True)
class ReleaseArgs:
    """Inputs of a Release. All but the evidence must be known at preview, so that the plan pins the decision."""

    service: str
    stack: str
    candidate: str
    """Digest of the candidate revision; empty = the active revision, nothing to decide."""
    revisions: Sequence[str]
    """Digests of every revision this program declares."""
    control: str
    """Path of the router's control socket."""
    policy: Mapping[str, str]
    """`{"source": <name of the file>, "text": <its content>}`"""
    evidence: Sequence[Mapping[str, str]]
    """`[{"path", "sha256"}]` of envelopes below `evidence_folder`."""
    evidence_folder: str
    ledger: str
    windows: str = ""
    """Folder with traffic windows, which canary steps are decided on."""
    as_of: str = ""
    initial_active: str = ""
    rollback_to: str = ""
    rollback_reason: str = ""
    override: str = ""
    """A signed override, as text."""

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "service": self.service,
            "stack": self.stack,
            "candidate": self.candidate,
            "revisions": list(self.revisions),
            "route": {"control": self.control},
            "policy": dict(self.policy),
            "evidence": [dict(reference) for reference in self.evidence],
            "evidenceFolder": self.evidence_folder,
            "ledger": self.ledger,
        }
        optional = {
            "windows": self.windows,
            "asOf": self.as_of,
            "initialActive": self.initial_active,
            "rollbackTo": self.rollback_to,
            "rollbackReason": self.rollback_reason,
            "override": self.override,
        }
        return wire | {name: value for name, value in optional.items() if value}


class Release(pulumi.CustomResource):
    """Moves the route of one service, and only under a verdict that allows it."""

    def __init__(self, name: str, args: ReleaseArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        props = args.to_wire() | dict.fromkeys(_OUTPUTS)
        super().__init__("infercrane:index:Release", name, props, opts)

    @property
    def active_revision(self) -> pulumi.Output[str]:
        """Digest of the revision that gets the traffic."""
        return self._output("activeRevision")

    @property
    def previous_revision(self) -> pulumi.Output[str]:
        """Digest of the revision before it, kept warm for a rollback; empty when there is none."""
        return self._output("previousRevision")

    @property
    def verdict(self) -> pulumi.Output[str]:
        """`promote`, `reject`, `insufficient_evidence`, or empty when nothing was to be decided."""
        return self._output("verdict")

    @property
    def action(self) -> pulumi.Output[str]:
        return self._output("action")

    @property
    def reasons(self) -> pulumi.Output[list[str]]:
        """Why, in short lines; the deciding rule first."""
        return self._output("reasons")

    @property
    def decision_id(self) -> pulumi.Output[str]:
        return self._output("decisionId")

    @property
    def weights(self) -> pulumi.Output[Mapping[str, int]]:
        """Percent by revision digest while a candidate has a share of the traffic; empty otherwise."""
        return self._output("weights")

    @property
    def route_generation(self) -> pulumi.Output[str]:
        return self._output("routeGeneration")

    def _output(self, name: str) -> pulumi.Output[Any]:
        output: pulumi.Output[Any] = self.__dict__[name]
        return output
