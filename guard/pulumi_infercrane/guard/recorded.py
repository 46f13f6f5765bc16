"""A decision record read back: it has the fields its type needs, and says whether anyone edited it since."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.errors import GuardError
from pulumi_infercrane.guard.findings import findings
from pulumi_infercrane.guard.schemas.decision import DecisionRecord

_NEEDED = {
    "promotion": ("baseline", "history"),
    "rollback": ("baseline",),
    "override": ("baseline",),
    "canary_step": ("baseline", "history", "step"),
    "post_promotion": ("history", "promoted", "started_at"),
}
"""Fields a decision of a type cannot be computed again without; the schema leaves them to the type."""


def check_record(document: Any) -> Mapping[str, Any]:
    """The document, when it is a decision record.

    Raises:
        GuardError: names the first field that is missing or wrong.
    """
    try:
        record = DecisionRecord.model_validate(document)
    except ValidationError as error:
        first = findings(error, DecisionRecord)[0]
        raise GuardError(f"not a decision record: {first.field or 'record'}: {first.text}") from error
    missing = [name for name in _NEEDED.get(record.decision_type, ()) if name not in document]
    if missing or not record.reasons:
        raise GuardError(f"not a decision record: {(*missing, 'reasons')[0]} is missing")
    return dict(document)


def is_untouched(record: Mapping[str, Any]) -> bool:
    """Whether the content of a record still gives its decision_id."""
    computed = digest({key: value for key, value in record.items() if key != "decision_id"})
    return bool(computed == record["decision_id"])
