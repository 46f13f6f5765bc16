"""The resource types of this package."""

from pulumi_infercrane.components.plugin.registry import find_resources


def test_every_resource_type_is_found_by_its_token_and_has_a_schema() -> None:
    found = find_resources()
    assert {"infercrane:index:Process", "infercrane:index:Release", "infercrane:index:Route"} <= set(found)
    for token, resource in found.items():
        assert resource.token == token
        assert set(resource.schema["requiredInputs"]) <= set(resource.schema["inputProperties"])
        assert set(resource.schema["required"]) <= set(resource.schema["properties"])
