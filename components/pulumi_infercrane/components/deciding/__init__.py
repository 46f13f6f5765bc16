"""What a Release decides; `check` is the way in."""

from pulumi_infercrane.components.deciding.checking import check
from pulumi_infercrane.components.deciding.declared import Declared, declared_from
from pulumi_infercrane.components.deciding.outcomes import DECISION_FIELDS, Outcome, shares

__all__ = ["DECISION_FIELDS", "Declared", "Outcome", "check", "declared_from", "shares"]
