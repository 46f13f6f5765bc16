"""Types that several formats share, and how a format of JSON Lines becomes one schema."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.json_schema import models_json_schema

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
UtcTime = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]
Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, le=600)]
Share = Annotated[float, Field(ge=0, le=1)]


class Closed(BaseModel):
    """A format we alone write: another field is a mistake."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Open(BaseModel):
    """A format that may grow: readers pass over fields they do not know."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Header(Open):
    """First line of a file our collectors write."""

    tool_version: str
    revision_digest: Digest
    planned: Count
    """How many lines follow."""
    started_at: UtcTime
    ended_at: UtcTime


class Line(Open):
    """Every further line; ids pair the two sides."""

    id: str
    outcome: str
    """`complete`, or the class of the failure."""


def document(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The schema of one document."""
    return {**_without_null(model.model_json_schema(by_alias=True)), "title": title}


def lines(header: type[BaseModel], line: type[BaseModel], title: str) -> dict[str, Any]:
    """The schema of each line of a file: the first is a header, all others are lines."""
    _, built = models_json_schema([(header, "validation"), (line, "validation")], by_alias=True)
    choices = [{"$ref": f"#/$defs/{model.__name__}"} for model in (header, line)]
    described = {"title": title, "description": "Of each line; the first one is the header."}
    return {**described, "oneOf": choices, **_without_null(built)}


def _without_null(schema: Any) -> Any:
    """What is optional is left out of our files; null is never written."""
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _without_null(value) for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) == len(kept.get("anyOf", ())):
        return kept
    del kept["anyOf"]
    return {**kept, **choices[0]} if len(choices) == 1 else {**kept, "anyOf": choices}
