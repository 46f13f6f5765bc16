"""Reports: one module per format, found by its name. A module exposes `render(record) -> str` for a decision record."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

Render = Callable[[Mapping[str, Any]], str]


def known_reports() -> tuple[str, ...]:
    """The formats there are, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def find_report(name: str) -> Render:
    """The renderer of a format.

    Raises:
        KeyError: when there is no such module.
    """
    if name not in known_reports():
        raise KeyError(name)
    render: Render = importlib.import_module(f"{__name__}.{name}").render
    return render
