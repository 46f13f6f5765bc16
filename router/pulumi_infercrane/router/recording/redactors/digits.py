"""Every digit becomes 1: numbers of cards, telephones and accounts are gone, lengths and valid JSON stay."""

import re

_DIGIT = re.compile(r"\d")


def redact(text: str) -> str:
    return _DIGIT.sub("1", text)
