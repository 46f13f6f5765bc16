"""One form of a value, hence one digest."""

import math

import pytest

from pulumi_infercrane.guard import CanonicalError
from pulumi_infercrane.guard.canonical import canonical_bytes, digest, digest_bytes, digest_file, rounded


def test_keys_sort_by_utf16_code_units():
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ufb33":1}'.encode()


def test_ten_and_ten_point_zero_are_one_number():
    assert digest({"rate": 10}) == digest({"rate": 10.0})


def test_absent_and_null_are_different():
    assert digest({}) != digest({"a": None})


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 2**53, -(2**53), {1: 2}, "\ud800", {"\ud800": 1}, b"x", object()]
)
def test_values_without_a_canonical_form_are_refused(value):
    with pytest.raises(CanonicalError):
        canonical_bytes([value])


def test_the_largest_safe_integers_are_kept():
    assert canonical_bytes([2**53 - 1, -(2**53) + 1]) == b"[9007199254740991,-9007199254740991]"


def test_a_file_has_the_digest_of_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert (
        digest_file(tmp_path / "a")
        == digest_bytes(b"abc")
        == "sha256:" + ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    )


def test_numbers_are_judged_at_nine_digits():
    assert rounded(0.1234567894) == 0.123456789
    assert rounded(1.0 + 1e-12) == 1.0
    assert rounded(math.inf) == math.inf
