"""What is taken out of recorded texts, one module each, found by its name.

A module exposes `redact(text) -> str`. It takes time proportional to the text, whatever the text is: it runs beside the
data plane.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence

Redactor = Callable[[str], str]


def redactors() -> tuple[str, ...]:
    """The names of the redactors, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def combined(names: Sequence[str]) -> Redactor:
    """All the named ones, in their order."""
    chosen: list[Redactor] = [importlib.import_module(f"{__name__}.{name}").redact for name in names]

    def redact(text: str) -> str:
        for one in chosen:
            text = one(text)
        return text

    return redact
