"""Values of files are of the type they must be, and what goes into a record can be written there."""

import pytest

from pulumi_infercrane.guard.evidence.reading.fields import field
from pulumi_infercrane.guard.reasons import Inadmissible


def test_a_value_of_its_type():
    assert field({"name": "größe 🙂"}, "name", str, "") == "größe 🙂"


@pytest.mark.parametrize("value", [None, 1, True, []])
def test_another_type_is_refused(value):
    with pytest.raises(Inadmissible, match="bad_value: here: name is missing or not a text"):
        field({"name": value}, "name", str, "here")


@pytest.mark.parametrize("value", ["\ud800", "a\udfff"])
def test_half_a_surrogate_pair_is_no_text(value):
    with pytest.raises(Inadmissible, match="bad_value: here: name has half a surrogate pair"):
        field({"name": value}, "name", str, "here")
