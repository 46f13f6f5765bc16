"""What may never happen while evidence is read, held by the interpreter's own audit events.

A hook cannot be removed again: install one only in a process that ends with the run.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

REFUSED = (
    *("exec", "compile", "import", "open", "marshal.loads", "pickle.find_class", "code.__new__", "builtins.input"),
    *("os.", "shutil.", "tempfile.", "subprocess.", "pty.", "ctypes.", "socket.", "urllib.", "http.", "webbrowser."),
)
"""Events, or with a dot at their end the beginnings of events."""


class Forbidden(BaseException):
    """Reading did something it must not. No `except Exception` of the product may swallow it."""


Allowed = Callable[[str, tuple[Any, ...]], bool]


def nothing(event: str, arguments: tuple[Any, ...]) -> bool:
    """Content that is in memory needs neither a file nor anything else."""
    return False


@dataclass
class Watch:
    """The hook of this process. It refuses only within `watched`."""

    allowed: Allowed | None = None

    @classmethod
    def installed(cls) -> "Watch":
        watch = cls()
        sys.addaudithook(watch._hook)
        return watch

    @contextmanager
    def watched(self, allowed: Allowed = nothing) -> Iterator[None]:
        """Refuse every event of `REFUSED` but those that are allowed."""
        self.allowed = allowed
        try:
            yield
        finally:
            self.allowed = None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None or not _is_refused(event):
            return
        allowed, self.allowed = self.allowed, None
        if not allowed(event, arguments):
            raise Forbidden(f"{event}{arguments!r:.200}")
        self.allowed = allowed


def _is_refused(event: str) -> bool:
    return any(event.startswith(one) if one.endswith(".") else event == one for one in REFUSED)
