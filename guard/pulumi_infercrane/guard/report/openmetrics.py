"""The figures of every rule as metrics, for pipelines that draw them over time (GitLab's metrics report)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.report import RECORD_ALONE, Context

_FIGURES = ("estimate", "lo", "hi", "limit")


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """`infercrane_rule_estimate{rule="benchmark.ttft_p95"} 1.04`, and so on for `lo`, `hi` and `limit`."""
    return "\n".join([*_lines(record), "# EOF"])


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    for name in _FIGURES:
        measured = [rule for rule in record["rules"] if name in rule]
        if measured:
            yield f"# TYPE infercrane_rule_{name} gauge"
        for rule in measured:
            yield f'infercrane_rule_{name}{{rule="{_label(rule["rule"])}"}} {_number(rule[name])}'


def _label(rule: str) -> str:
    """A rule id; whatever cannot be part of one is replaced, because readers split at spaces and quotes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", rule)


def _number(value: float | str) -> str:
    """An infinite figure stands in the record as a word."""
    return repr(float(value)).replace("inf", "Inf")
