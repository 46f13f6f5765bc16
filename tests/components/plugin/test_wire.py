"""The wire codec: what goes out comes back, markers included, and what cannot is refused."""

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.plugin.wire import UNKNOWN, Opaque, OutputValue, Secret

ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"

texts = st.text(max_size=20)
keys = texts.filter(lambda key: key != wire.SIGNATURE_KEY)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-wire.MAX_EXACT_INTEGER, wire.MAX_EXACT_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts.filter(lambda text: text not in wire.UNKNOWN_TEXTS)
)


def _containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Secret, inner)
        | st.builds(OutputValue, inner, st.lists(texts, max_size=2).map(tuple), st.booleans())
        | st.builds(Opaque, st.sampled_from([ASSET, ARCHIVE, REFERENCE]), st.dictionaries(keys, plain, max_size=3))
    )


values = st.recursive(plain | st.just(UNKNOWN), _containers, max_leaves=25)


@given(st.dictionaries(keys, values, max_size=5))
def test_decode_is_the_inverse_of_encode(properties: dict[str, object]) -> None:
    assert wire.decode(wire.encode(properties)) == properties


@given(st.dictionaries(keys, values, max_size=5))
def test_simplified_leaves_no_output_value_and_loses_no_mark(properties: dict[str, object]) -> None:
    simple = wire.simplified(properties)
    assert "OutputValue(" not in repr(wire.revealed(simple))
    assert wire.contains_unknown(simple) == wire.contains_unknown(properties)
    assert wire.contains_secret(simple) == wire.contains_secret(properties)


def test_whole_doubles_come_back_as_integers() -> None:
    decoded = wire.decode(_struct({"port": 8080.0, "ratio": 0.5, "huge": 1e300}))
    assert [type(decoded[key]) for key in ("port", "ratio", "huge")] == [int, float, float]


@pytest.mark.parametrize("number", [2**53, -(2**53), float("nan"), float("inf")])
def test_numbers_the_wire_would_change_are_refused(number: float) -> None:
    with pytest.raises(wire.WireError):
        wire.encode({"deep": [{"number": number}]})


def test_a_type_without_wire_form_is_refused_by_name() -> None:
    with pytest.raises(wire.WireError, match="type set"):
        wire.encode({"value": {1}})


@pytest.mark.parametrize("text", sorted(wire.UNKNOWN_TEXTS))
def test_an_unknown_of_any_type_is_unknown(text: str) -> None:
    assert wire.decode(_struct({"a": [text]})) == {"a": [UNKNOWN]}


def test_an_output_without_value_is_unknown() -> None:
    output = {wire.SIGNATURE_KEY: wire.OUTPUT_SIGNATURE, "secret": True}
    assert wire.simplified(wire.decode(_struct({"a": output}))) == {"a": Secret(UNKNOWN)}


def test_markers_are_found_at_any_depth() -> None:
    assert wire.contains_unknown([{"a": Secret([UNKNOWN])}])
    assert wire.contains_secret({"a": [{"b": Secret(1)}]})
    assert not wire.contains_unknown({"a": [Secret(1)]})
    assert not wire.contains_secret({"a": [UNKNOWN]})


def test_a_secret_does_not_show_itself() -> None:
    assert "hunter2" not in repr({"key": Secret("hunter2"), "out": OutputValue("hunter2", secret=True)})
    assert wire.revealed({"key": [Secret("hunter2")]}) == {"key": ["hunter2"]}


def _struct(properties: dict[str, object]) -> Struct:
    struct = Struct()
    struct.update(properties)
    return struct
