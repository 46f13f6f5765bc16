"""Share of words that two texts have in common, in their order: `difflib`'s ratio over the first words of each."""

from difflib import SequenceMatcher

MAX_WORDS = 256
"""The ratio takes the square of it in the worst case. Words behind it are not looked at."""


def similarity(left: str, right: str) -> float:
    """1.0 for the same words; two texts without a word are the same."""
    first, second = (text.split(maxsplit=MAX_WORDS)[:MAX_WORDS] for text in (left, right))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()
