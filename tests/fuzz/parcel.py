"""One fuzz input for a reader: what varies of the envelope, as one line of JSON, and the parts of the evidence.

The head names the parts in their order; what else it holds overrides the envelope that every input starts from.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MARK = b"\n\x1e part \x1e\n"


def packed(head: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    """The input of a head and the parts it names."""
    return MARK.join([json.dumps(head).encode(), *parts])


def unpacked(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Head and parts.

    Raises:
        ValueError: when the input has no such head.
    """
    first, *parts = data.split(MARK)
    head = json.loads(first)
    if not isinstance(head, dict) or not isinstance(head.get("parts"), list) or len(head["parts"]) != len(parts):
        raise ValueError("no head that names the parts")
    return head, parts
