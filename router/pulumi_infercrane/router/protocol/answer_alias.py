"""The alias a client asked for, in the place of `model` in the JSON of an answer. No other byte changes."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pulumi_infercrane.router.protocol.json_text import Member, find_model, members, read_json

_spelled_with_escapes = re.compile(rb"\\u006[45c-fC-F]").search
"""For any letter of `model`: with one of them its name is not found as bytes."""


class AnswerAlias:
    """What `model` is to be. `in_response`: also that of the member `response`, as in the events of `/v1/responses`."""

    __slots__ = ("_in_response", "_written")

    def __init__(self, alias: str, *, in_response: bool = False) -> None:
        self._written = json.dumps(alias).encode()
        self._in_response = in_response

    def put_in(self, document: bytes) -> bytes:
        """The document with the alias; the same one when it is no JSON object, or no `model` of it is a string.

        Where `model` occurs twice both are replaced, whichever of them the client reads.
        """
        count, escaped = document.count(b'"model"'), _spelled_with_escapes(document)
        if not count and not escaped:
            return document
        try:
            found = read_json(document)
        except (ValueError, RecursionError):
            return document
        if not isinstance(found, dict):
            return document
        field = find_model(document) if count == 1 and not escaped and "model" in found else None
        if field is not None:
            return document[: field.start(1)] + self._written + document[field.end(1) :]
        return self._put_in_all(document) if self._concerns(found) else document

    def _concerns(self, found: dict[str, Any]) -> bool:
        return "model" in found or (self._in_response and "response" in found)

    def _put_in_all(self, document: bytes) -> bytes:
        text, done = document.decode(), 0
        pieces: list[bytes] = []
        try:
            for one in self._names(text):
                pieces += text[done : one.start].encode(), self._written
                done = one.end
        except RecursionError:
            return document
        return b"".join([*pieces, text[done:].encode()]) if pieces else document

    def _names(self, text: str) -> Iterator[Member]:
        """The members whose values are replaced."""
        for member in members(text):
            if member.name == "model" and text[member.start] == '"':
                yield member
            elif member.name == "response" and self._in_response and text[member.start] == "{":
                inner = members(text, member.start)
                yield from (one for one in inner if one.name == "model" and text[one.start] == '"')
