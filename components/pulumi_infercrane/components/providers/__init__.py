"""Places to run a revision: one module each, found by name.

A provider module exposes `deploy(name, spec, alias, place, opts) -> Output[str]`: it declares whatever serves the
revision `spec` under the model name `alias`, all of it with `opts`, and returns the base URL of the server. Names of
what it makes must follow from `name`, which ends in eight hex digits of the revision's digest: a crash between create
and checkpoint then ends in "already there", never in a second object.
"""

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from pulumi_infercrane.components.errors import ComponentError

if TYPE_CHECKING:  # names are checked where the Pulumi SDK is not loaded
    import pulumi

    from pulumi_infercrane.components.place import Place
    from pulumi_infercrane.components.revision import RevisionSpec


class Provider(Protocol):
    """What a module of this folder offers."""

    def deploy(
        self, name: str, spec: "RevisionSpec", alias: str, place: "Place", opts: "pulumi.ResourceOptions"
    ) -> "pulumi.Output[str]": ...


class UnknownProvider(ComponentError, ValueError):
    """No module of that name in `components/providers/`."""

    code = "unknown_provider"


def known(name: str) -> str:
    """The name itself, when there is a provider of that name.

    Raises:
        UnknownProvider: with the names that exist.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in names:
        raise UnknownProvider(f"no provider {name!r}; there is: {', '.join(names)}")
    return name


def find(name: str) -> Provider:
    """The provider module called `name`.

    Raises:
        UnknownProvider: with the names that exist.
    """
    return cast("Provider", import_module(f"{__name__}.{known(name)}"))
