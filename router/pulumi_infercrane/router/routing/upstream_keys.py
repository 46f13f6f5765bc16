"""Keys of upstreams: named by the route table (`env:NAME`), held by the environment of the router."""

import re
from collections.abc import Mapping

_VISIBLE = re.compile(r"[\x21-\x7e]+")


class UpstreamKeys:
    """The keys there are. Blanks around one, such as the end of a line, are no part of it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def find(self, reference: str) -> str | None:
        """The key, fit for a header line; None when there is none that can be used."""
        key = self._read(reference)
        return key if _VISIBLE.fullmatch(key) else None

    def why_unusable(self, reference: str) -> str:
        """A finding that names the reference and repeats nothing of the key; empty when it can be used."""
        if self.find(reference) is not None:
            return ""
        if not self._read(reference):
            return f"{reference} is not set where the router runs"
        return f"{reference} holds something else than visible ASCII characters where the router runs"

    def _read(self, reference: str) -> str:
        return self._environment.get(reference.removeprefix("env:"), "").strip()
