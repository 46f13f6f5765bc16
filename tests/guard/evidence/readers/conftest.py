"""Fixtures of the readers' tests: one file under an envelope, read."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence.folder import LoadedEvidence


@pytest.fixture
def loaded(folder: Any) -> Callable[..., LoadedEvidence]:
    """`loaded(tool, version, parts, **of_envelope)`: a candidate's files, read."""

    def load(tool: str, version: str, parts: Mapping[str, bytes], **of_envelope: Any) -> LoadedEvidence:
        folder.measured("candidate", tool, version, parts, **({"kind": "quality"} | of_envelope))
        (item,) = load_evidence(folder.root).items
        return item

    return load
