"""JSON Schemas (2020-12) of the guard's own formats, for editors and for whoever writes or reads these files elsewhere.

One module per format, found by its name, with `schema() -> dict`. They describe shape; whether a piece of evidence
counts is decided by the readers and the gates alone.
"""

import importlib
import pkgutil
from typing import Any

from pulumi_infercrane.guard.errors import GuardError

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SchemaError(GuardError):
    """There is no such format."""

    code = "schema_name"


def names() -> tuple[str, ...]:
    """Formats that have a schema, sorted."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")))


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a format.

    Raises:
        SchemaError: names the formats there are.
    """
    if name not in names():
        raise SchemaError(f"no schema {name!r}; there are {', '.join(names())}")
    built: dict[str, Any] = importlib.import_module(f"{__name__}.{name}").schema()
    return {"$schema": DIALECT, **built}
