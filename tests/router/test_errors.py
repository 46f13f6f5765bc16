"""One tree, one code each, and what the docstring shows."""

import inspect
import re

from pulumi_infercrane.router import errors
from pulumi_infercrane.router.errors import RouterError

KINDS = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, RouterError)]


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)


def test_the_docstring_shows_the_tree() -> None:
    shown = re.findall(r"^(?:[├└]── )?([A-Z][A-Za-z]+)(?= {2}|$)", errors.__doc__ or "", re.MULTILINE)
    assert shown == [kind.__name__ for kind in KINDS]
