"""GitLab: a dotenv report with the verdict for later jobs. The rules go into a JUnit report beside it."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.printable import one_line
from pulumi_infercrane.guard.report import RECORD_ALONE, Context


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """`INFERCRANE_VERDICT=…` and `INFERCRANE_DECISION=sha256:…`."""
    return f"INFERCRANE_VERDICT={one_line(record['verdict'])}\nINFERCRANE_DECISION={one_line(record['decision_id'])}"
