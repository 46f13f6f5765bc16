"""A revision: immutable, checked, and identified by what it is rather than where it lies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pulumi_infercrane.components import RevisionSpec
from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.guard import revision_digest

WEIGHTS = "sha256:" + "a" * 64
SERVER = "sha256:" + "b" * 64


def described(**changes: Any) -> dict[str, Any]:
    runtime = {"engine": "llama.cpp", "version": "b1", "executable": "llama-server", "sha256": SERVER}
    return {"name": "r1", "model": {"path": "m.gguf", "sha256": WEIGHTS}, "runtime": runtime} | changes


def spec(**changes: Any) -> RevisionSpec:
    return RevisionSpec.model_validate(described(**changes))


def with_runtime(**changes: Any) -> RevisionSpec:
    return spec(runtime=described()["runtime"] | changes)


def test_the_digest_is_that_of_the_subject_an_envelope_carries() -> None:
    subject = spec().subject
    assert subject["revision_digest"] == spec().digest == revision_digest(subject)


def test_the_digest_of_a_known_revision_does_not_drift() -> None:
    """The digest binds evidence that lies in repositories: a new version of this package may not change it."""
    assert spec().digest == "sha256:58fd72130928cd3072ae0bb5eebaf22f63f09daa8066375c0d939899fd168fe0"


@pytest.mark.parametrize(
    "other",
    [
        spec(name="another"),
        spec(port=8123),
        spec(model={"path": "elsewhere/m.gguf", "sha256": WEIGHTS}),
        with_runtime(executable="/opt/llama/llama-server"),
        with_runtime(settings={"threads": 1}),
    ],
    ids=["name", "port", "folder of the model", "place of the server", "a default written out"],
)
def test_where_it_lies_and_what_it_is_called_do_not_matter(other: RevisionSpec) -> None:
    assert other.digest == spec().digest


@pytest.mark.parametrize(
    "other",
    [
        spec(model={"path": "m.gguf", "sha256": SERVER}),
        spec(model={"path": "m.gguf", "sha256": WEIGHTS, "quantization": "Q8_0"}),
        with_runtime(sha256=WEIGHTS),
        with_runtime(version="b2"),
        with_runtime(settings={"threads": 2}),
        with_runtime(args=["--no-mmap"]),
        spec(pool={"accelerator": {"vendor": "nvidia", "sku": "L40S", "count": 1}}),
    ],
    ids=["weights", "quantization", "server", "version", "setting", "argument", "accelerator"],
)
def test_what_it_is_decides(other: RevisionSpec) -> None:
    assert other.digest != spec().digest


def test_it_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        spec().name = "r2"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "R 1"}, "name"),
        ({"model": {"path": "m.gguf", "sha256": "latest"}}, "model.sha256"),
        ({"model": {"path": "m.gguf"}}, "model.sha256"),
        ({"port": 70000}, "port"),
        ({"replicas": 2}, "replicas"),
        ({"pool": {"provider": "mars"}}, "pool.provider"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as raised:
        spec(**changes)
    assert field in [".".join(map(str, error["loc"])) for error in raised.value.errors()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "lama"}, "no runtime 'lama'"),
        ({"settings": {"threads": 0}}, "settings.threads"),
        ({"settings": {"max_context_len": 10**9}}, "settings.max_context_len"),
        ({"settings": {"cache_ratio": 0.9}}, "no such setting"),
        ({"args": ["--threads", "4"]}, "already given by threads"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ComponentError, match=message):
        with_runtime(**changes)


@given(st.permutations(["max_context_len", "threads", "max_concurrency"]))
def test_the_order_of_settings_does_not_matter(order: list[str]) -> None:
    values = {"max_context_len": 512, "threads": 2, "max_concurrency": 3}
    assert with_runtime(settings={key: values[key] for key in order}).digest == with_runtime(settings=values).digest
