"""Prompts for a load: generated from a start value, all different, of mixed length."""

import random
import secrets
from collections.abc import Iterator, Sequence

from pulumi_infercrane.guard.collect.load import Question
from pulumi_infercrane.guard.collect.stream import prompt

SHORTEST, LONGEST = 3, 9
WORDS_IN_TITLE = 3

_THINGS = """
anchor apple arrow autumn bakery basket beach bell bicycle boat book bottle branch bread bridge brush button candle
carpet castle chair circus clock cloud coast compass copper corner cotton desert diary dinner door eagle engine farm
feather fence field flower forest fountain garden glass glove grape hammer harbor harvest hill honey horse island jacket
jungle kettle key ladder lake lantern leaf lemon letter library lighthouse map market meadow mirror moon mountain museum
needle notebook ocean orchard owl painting paper pepper piano picture pillow planet pocket pond potato puzzle rabbit
railway rain ribbon river road rocket roof rope saddle sailor salt school shadow shell shirt silver snow spoon station
stone storm street summer sunset table teacher temple theater tiger tower train tree tunnel valley village violin wagon
wall water weather wheel whistle window winter wolf wood yard
"""


def generated_prompts(count: int, start: int) -> list[str]:
    """`count` prompts; the same start value gives the same ones everywhere."""
    things, numbers = _THINGS.split(), random.Random(start)  # noqa: S311 - a repeatable choice is the point
    return [f"Write a long story about {', '.join(_choose(things, numbers))}." for _ in range(count)]


def as_questions(prompts: Sequence[str], max_tokens: int, name: str = "") -> list[Question]:
    """The prompts with ids, each beginning with the title of this run.

    A replica that was measured before with the same prompts would otherwise answer from its prefix cache.
    """
    title = " ".join(secrets.choice(_THINGS.split()) for _ in range(WORDS_IN_TITLE))
    asked = (prompt(f"{title}: {text}", max_tokens) for text in prompts)
    return [Question(f"{name}{number:04}", fields) for number, fields in enumerate(asked, start=1)]


def _choose(things: Sequence[str], numbers: random.Random) -> Iterator[str]:
    """Only `random()` is the same in every version of Python."""
    for _ in range(SHORTEST + int(numbers.random() * (LONGEST - SHORTEST + 1))):
        yield things[int(numbers.random() * len(things))]
