"""What pydantic finds, in our words: no text of its own is left for any type our documents use."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.findings import JSON, YAML, Terms, findings
from pulumi_infercrane.guard.overrides import Order
from pulumi_infercrane.guard.schemas.decision import DecisionRecord


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    size: Annotated[int, Field(ge=1, lt=9)] = 1


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, StringConstraints(min_length=1, max_length=5, pattern=r"\S")] = "a"
    schema_: Annotated[str, Field(alias="schema")] = ""
    side: Literal["left", "right"] = "left"
    on: bool = True
    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1
    bound: float | Literal["inf"] = 1
    chosen: dict[str, int | str] = {}
    inner: Inner = Inner()
    many: Annotated[tuple[Inner, ...], Field(max_length=2)] = ()
    few: Annotated[list[str], Field(min_length=1)] = ["a"]


def told(document: object, terms: Terms = JSON) -> str:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(document)
    return "; ".join(f"{finding.field}: {finding.text}" for finding in findings(raised.value, Outer, terms))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], ": an object was expected"),
        ({"nam": "a"}, "nam: unknown field, did you mean 'name'?"),
        ({"schem": "a"}, "schem: unknown field, did you mean 'schema'?"),
        ({"inner": {"q": 1}}, "inner.q: unknown field, known are size"),
        ({"many": ({"siz": 1},)}, "many.0.siz: unknown field, did you mean 'size'?"),
        ({"name": 3}, "name: a text was expected"),
        ({"name": ""}, "name: must not be empty"),
        ({"name": " "}, "name: must not be blank"),
        ({"name": "a" * 6}, "name: has more than 5 characters"),
        ({"side": "top"}, "side: 'left' or 'right' was expected"),
        ({"on": "yes"}, "on: true or false was expected"),
        ({"share": "1"}, "share: a number was expected"),
        ({"share": 0}, "share: must be above 0"),
        ({"share": 2}, "share: must be at most 1"),
        ({"share": float("nan")}, "share: must be a finite number"),
        ({"bound": "wide"}, "bound: a number or 'inf' was expected"),
        ({"chosen": {"task": 1.5}}, "chosen.task: a whole number or a text was expected"),
        ({"chosen": 1}, "chosen: an object was expected"),
        ({"inner": {"size": 1.5}}, "inner.size: a whole number was expected"),
        ({"inner": {"size": 0}}, "inner.size: must be at least 1"),
        ({"inner": {"size": 9}}, "inner.size: must be below 9"),
        ({"inner": "x"}, "inner: an object was expected"),
        ({"many": "x"}, "many: a list was expected"),
        ({"many": (Inner(),) * 3}, "many: has more than 2"),
        ({"few": []}, "few: needs at least 1"),
        ({"on": 1, "side": 2}, "side: 'left' or 'right' was expected; on: true or false was expected"),
    ],
)
def test_a_finding_is_told_in_our_words(document: object, text: str) -> None:
    assert told(document) == text


def test_yaml_has_keys_and_mappings() -> None:
    assert told({"nam": 1, "inner": 2}, YAML) == "inner: a mapping was expected; nam: unknown key, did you mean 'name'?"


@pytest.mark.parametrize("name", ["str", "int", "float", "bool", "literal[", "[key]", ""])
def test_an_unknown_field_keeps_its_name_whatever_it_is(name: str) -> None:
    """These are pydantic's own words for where in a value something is."""
    assert told({name: 1}).startswith(f"{name}: unknown field, known are name, ")
    assert told({"inner": {name: 1}}) == f"inner.{name}: unknown field, known are size"


def test_a_name_cannot_leave_its_line() -> None:
    assert told({"a\nb": 1}).startswith("a\\nb: unknown field")


@pytest.mark.parametrize("model", [Envelope, Order, DecisionRecord, RevisionSpec])
def test_every_form_a_text_must_have_is_described(model: type[BaseModel]) -> None:
    patterns = set(_patterns(model.model_json_schema()))
    assert patterns
    for pattern in patterns:
        formed = create_model("Formed", text=(Annotated[str, StringConstraints(pattern=pattern)], ...))
        with pytest.raises(ValidationError) as raised:
            formed.model_validate({"text": ""})
        assert pattern not in findings(raised.value, formed)[0].text


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (schema["pattern"],) if isinstance(schema.get("pattern"), str) else ()
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _patterns(part)
