"""One module per resource type, each exposing `RESOURCE`; found by `plugin.registry`."""
