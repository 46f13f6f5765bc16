"""The table a Route asks for, beside the one a router has. Pure.

A setting that is declared is what it is declared to be, and a router that has another shows a difference. One that is
not declared is whatever others told the router; one that was declared until now is taken back.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pulumi_infercrane.components.plugin.resource import Properties
from pulumi_infercrane.components.plugin.wire import contains_unknown
from pulumi_infercrane.router.errors import TableInvalid
from pulumi_infercrane.router.tables.schema import SETTINGS as OF_SERVICE
from pulumi_infercrane.router.tables.schema import SETTINGS_OF_REVISION as OF_REVISION
from pulumi_infercrane.router.tables.schema import read_settings
from pulumi_infercrane.router.tables.table import ROUND_ROBIN

SETTINGS = (*OF_SERVICE, *OF_REVISION)
"""Settings of a table by name; those of a revision are declared for all of them."""

_LEFT_OF_REVISION = (*OF_REVISION, "answer_as_alias")
"""What others may have told of a revision. No Route declares the last: engines deployed here serve under the alias."""

_UNSAID: Mapping[str, Any] = {
    "pins": [],
    "pinning": False,
    "session_header": "",
    "fallback": "",
    "balance": ROUND_ROBIN,
    "stack": "",
}
"""What a table means that says nothing of a setting; those not listed it then does not have."""


def with_whole_settings(inputs: Properties) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The inputs with every setting as the table will have it, and what is wrong by property path.

    What is not known yet is left as it is.
    """
    rest = {name: value for name, value in inputs.items() if name not in SETTINGS}
    given = {name: inputs[name] for name in SETTINGS if inputs.get(name) is not None}
    known = {name: value for name, value in given.items() if not contains_unknown(value)}
    digests = _digests(inputs["revisions"])
    if contains_unknown(digests):
        return rest | given, []
    try:
        return rest | given | read_settings(known, digests), []
    except TableInvalid as invalid:
        return dict(inputs), [_split(finding) for finding in invalid.findings]


def table(inputs: Properties, before: Iterable[str], live: Mapping[str, Any]) -> dict[str, Any]:
    """The table to be: what is declared here, and whatever else the router was told about this service.

    `before` are the inputs that were declared last. A revision that leaves takes what named it along: it can be no pin,
    mirror or fallback any more.
    """
    revisions = revisions_of(inputs)
    kept = {name: live[name] for name in OF_SERVICE if name in live and name not in before}
    if "pins" in kept:
        kept["pins"] = [digest for digest in kept["pins"] if digest in revisions]
    if kept.get("mirror", {}).get("revision") not in revisions:
        kept.pop("mirror", None)
    if kept.get("fallback") not in revisions:
        kept.pop("fallback", None)
    for digest, entry in revisions.items():
        known = live.get("revisions", {}).get(digest, {})
        entry |= {name: known[name] for name in _LEFT_OF_REVISION if name in known and name not in before}
        entry |= _declared(inputs, OF_REVISION)
    names = {name: list(inputs[name]) for name in ("aliases", "protocols")}
    return {**kept, **_declared(inputs, OF_SERVICE), **names, "revisions": revisions}


def seen(inputs: Properties, live: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with what the router has for each setting they declare; without those it does not have."""
    found = {name: value for name, value in inputs.items() if name not in SETTINGS}
    for name in _declared(inputs, OF_SERVICE):
        found[name] = live.get(name, _UNSAID.get(name))
    revisions = [entry for digest, entry in live["revisions"].items() if digest in revisions_of(inputs)]
    for name, declared in _declared(inputs, OF_REVISION).items():
        values = [entry.get(name, _UNSAID.get(name)) for entry in revisions]
        found[name] = next((value for value in values if value != declared), declared)
    return {name: value for name, value in found.items() if value is not None}


def strayed(inputs: Properties, live: Mapping[str, Any]) -> bool:
    """Whether the router knows other revisions or addresses than declared."""
    return _addresses(live["revisions"]) != _addresses(revisions_of(inputs))


def revisions_of(inputs: Properties) -> dict[str, Any]:
    """The revisions as a table has them, without their settings."""
    return {
        revision["digest"]: {
            "label": revision["label"],
            "state": "serving",
            "upstream_model": revision["model"],
            "dialect": revision["dialect"],
            "upstreams": [{"id": f"{revision['label']}-{n}", "url": url} for n, url in enumerate(revision["urls"])],
        }
        for revision in inputs["revisions"]
    }


def _digests(revisions: Any) -> list[Any]:
    if not isinstance(revisions, list):
        return [revisions]
    return [revision["digest"] if isinstance(revision, Mapping) else revision for revision in revisions]


def _declared(inputs: Properties, names: Iterable[str]) -> dict[str, Any]:
    return {name: inputs[name] for name in names if inputs.get(name) is not None}


def _addresses(revisions: Mapping[str, Any]) -> dict[str, list[str]]:
    return {digest: [upstream["url"] for upstream in entry["upstreams"]] for digest, entry in revisions.items()}


def _split(finding: str) -> tuple[str, str]:
    path, _, problem = finding.partition(": ")
    return path, problem
