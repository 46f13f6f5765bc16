"""Text for people out of values that others wrote: it stays on its line and hides nothing."""

import difflib
from collections.abc import Sequence


def short(digest: str) -> str:
    """The first twelve hex digits."""
    return one_line(digest).removeprefix("sha256:")[:12]


def one_line(value: object) -> str:
    """Text from evidence or policy that cannot leave its line: what does not print becomes an escape."""
    text = str(value)
    return text if text.isprintable() else "".join(_printable(character) for character in text)


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def clipped(text: str, most: int) -> str:
    """At most `most` characters, with an ellipsis for the rest."""
    return text if len(text) <= most else text[: most - 1] + "…"


def nearest(name: str, known: Sequence[str]) -> str:
    """What was probably meant, or what there is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
