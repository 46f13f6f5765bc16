"""What is signed, byte for byte, against the examples of the two specifications."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE, from_base64, is_valid, key_id, signed_bytes
from tests.guard.trust.conftest import key_of


def test_the_example_of_the_dsse_specification():
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert signed_bytes("http://example.com/HelloWorld", b"hello world") == expected


def test_lengths_are_of_bytes():
    assert signed_bytes("ü", "é€".encode()) == "DSSEv1 2 ü 5 é€".encode()
    assert signed_bytes("", b"") == b"DSSEv1 0  0 "


def test_vector_1_of_rfc_8032():
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert private.public_key().public_bytes_raw() == public
    assert key_id(public) == "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"


def test_a_signature_holds_for_its_key_its_type_and_its_bytes():
    key = key_of("bench")
    sig = key.sign(EVIDENCE_TYPE, b"body")["sig"]
    assert is_valid(key.public_key, sig, EVIDENCE_TYPE, b"body")
    assert not is_valid(key_of("other").public_key, sig, EVIDENCE_TYPE, b"body")
    assert not is_valid(key.public_key, sig, "application/json", b"body")
    assert not is_valid(key.public_key, sig, EVIDENCE_TYPE, b"body ")


def test_where_type_ends_and_body_begins_cannot_be_moved():
    assert signed_bytes("a", b"b 1 c") != signed_bytes("a 5 b", b"c")


@pytest.mark.parametrize(
    "spelt",
    [
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text[:40] + "\n" + text[40:],
        lambda text: text.rstrip("="),
        lambda text: text + "=",
        lambda text: text.replace("+", "-").replace("/", "_"),
        lambda text: text[:-3] + chr(ord(text[-3]) + 1) + "==",  # the same bytes for a careless decoder
        lambda text: text[:-4],
        lambda text: "",
        lambda text: "ä" * 88,
    ],
)
def test_a_signature_is_written_in_one_way_only(spelt):
    data = bytes(range(192, 256))
    text = base64.b64encode(data).decode()
    assert from_base64(text, 64) == data
    with pytest.raises(ValueError, match=r"base64|ASCII"):
        from_base64(spelt(text), 64)
