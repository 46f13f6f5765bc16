"""The package schema: what other languages and `pulumi package get-schema` see of our resource types."""

import json
from collections.abc import Mapping

from pulumi_infercrane.components.plugin.resource import Resource

PACKAGE = "infercrane"


def package_schema(resources: Mapping[str, Resource], version: str) -> str:
    """JSON text of the schema of all `resources`."""
    schema = {
        "name": PACKAGE,
        "version": version,
        "description": "Release-guarded model serving: one endpoint, changed only on evidence.",
        "license": "Apache-2.0",
        "resources": {token: dict(resource.schema) for token, resource in sorted(resources.items())},
    }
    return json.dumps(schema, sort_keys=True)
