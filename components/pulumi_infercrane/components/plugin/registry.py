"""Finds the resource types of this provider."""

import pkgutil
from importlib import import_module

from pulumi_infercrane.components.plugin import resources
from pulumi_infercrane.components.plugin.resource import Resource


def find_resources() -> dict[str, Resource]:
    """Resource types by token: every module of `plugin.resources` exposes `RESOURCE`."""
    names = [module.name for module in pkgutil.iter_modules(resources.__path__)]
    found: list[Resource] = [import_module(f"{resources.__name__}.{name}").RESOURCE for name in names]
    return {resource.token: resource for resource in found}
