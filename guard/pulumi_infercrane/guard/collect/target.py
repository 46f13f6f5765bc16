"""What is measured: one replica of one revision."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.errors import GuardError
from pulumi_infercrane.guard.evidence import revision_digest

Progress = Callable[[str, int, int], None]
"""`(label, done, total)`: requests answered so far on both sides together; `label` is the side at work."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class CollectError(GuardError):
    """Nothing was measured, or not to the end; no evidence was written."""

    code = "collect_failed"


@dataclass(frozen=True)
class Target:
    """A replica to measure: short name of its revision, the revision's identity, where and as what it answers."""

    label: str
    revision_digest: str
    subject: Mapping[str, Any]
    base_url: str
    """Without `/v1`, for example `http://127.0.0.1:8101`."""
    model: str

    def __post_init__(self) -> None:
        """Raises CollectError for a label that is no plain name and for a subject that is another revision's."""
        if not _LABEL.fullmatch(self.label):
            raise CollectError(f"{self.label!r} cannot name a folder: letters, digits, '.', '_' and '-' only")
        if revision_digest(self.subject) != self.revision_digest:
            raise CollectError(f"{self.label}: the subject is not the one of revision {self.revision_digest}")

    @property
    def name(self) -> str:
        """For messages: `r2 at http://127.0.0.1:8101`."""
        return f"{self.label} at {self.base_url}"
