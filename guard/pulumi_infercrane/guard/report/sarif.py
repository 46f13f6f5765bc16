"""SARIF 2.1.0: what failed or could not be judged, at the policy line of its rule.

Viewers read `level`; the SARIF kind `open` for "could not decide" would show as nothing. So a fail is an error, an
unknown a warning, and which of the two it was stands in `properties`.
"""

from collections.abc import Mapping
from json import dumps
from typing import Any
from urllib.parse import quote

from pulumi_infercrane.guard.printable import one_line
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import Row, headline, rows, worst_first

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"fail": "error", "unknown": "warning"}


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The log with one run; a promotion has no results."""
    found = rows(record)
    order = {rule: index for index, rule in enumerate(dict.fromkeys(row.rule for row in found))}
    run = {
        "tool": {"driver": _driver(record, found)},
        "automationDetails": {"id": f"infercrane/{one_line(record['service'])}/{one_line(record['stack'])}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_result(row, order[row.rule], context) for row in worst_first(found) if not row.settled],
        "properties": {"verdict": record["verdict"], "decisionId": record["decision_id"], "headline": headline(record)},
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _driver(record: Mapping[str, Any], found: list[Row]) -> dict[str, Any]:
    return {
        "name": "infercrane guard",
        "semanticVersion": one_line(record["guard_version"]),
        "rules": [
            {"id": row.rule, "shortDescription": {"text": f"{row.rule} ({_class(row)} rule of kind {row.kind})"}}
            for row in {row.rule: row for row in found}.values()
        ],
    }


def _class(row: Row) -> str:
    return "hard" if row.weight == "H" else "soft"


def _result(row: Row, index: int, context: Context) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": row.rule,
        "ruleIndex": index,
        "level": _LEVELS[row.outcome],
        "message": {"text": f"{row.rule}: {row.message} ({row.figures})"},
        "partialFingerprints": {"infercraneRule/v1": f"{row.rule}:{row.code}"},
        "properties": {
            "kind": row.outcome,
            "evidenceKind": row.kind,
            "reason": row.code,
            "estimate": row.estimate,
            "interval": row.interval,
            "limit": row.limit,
            "n": row.n,
            "needs": row.needs,
            "required": row.required,
        },
    }
    return result | ({"locations": [_location(row.rule, context)]} if context.policy else {})


def _location(rule: str, context: Context) -> dict[str, Any]:
    artifact = {"uri": quote(one_line(context.policy))}
    line = context.lines.get(rule, 1)
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}
