"""Property values between the engine's protobuf form and plain Python.

Six kinds travel on the wire: plain values, unknowns, secrets, output values, assets and archives, resource
references; the last two are left closed here. `decode` and `encode` are inverse to each other; `simplified`
folds output values into the first three kinds, so that resources never see them.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Struct, Value  # type: ignore[import-untyped]

from pulumi_infercrane.components.errors import ComponentError

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker of the protocol
OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
UNKNOWN_TEXTS = frozenset(
    {
        UNKNOWN_TEXT,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)

MAX_EXACT_INTEGER = 2**53 - 1
"""Numbers are doubles on the wire; beyond this an integer would come back as another one."""


class WireError(ComponentError):
    """A value has no exact form on the wire."""

    code = "value_not_encodable"


class Unknown(Enum):
    """Type of `UNKNOWN`: a value that depends on something not yet created."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


@dataclass(frozen=True)
class Secret:
    """A value the engine encrypts in its state and masks in its output."""

    value: Any = field(repr=False)


@dataclass(frozen=True)
class OutputValue:
    """A value together with the URNs it depends on; without a value it is unknown."""

    value: Any = field(default=UNKNOWN, repr=False)
    dependencies: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True)
class Opaque:
    """An asset, archive or resource reference, passed through untouched."""

    signature: str
    fields: Mapping[str, Any]


def decode(struct: Struct) -> dict[str, Any]:
    """Plain values with markers; whole numbers become `int`."""
    return {key: _decode(value) for key, value in struct.fields.items()}


def encode(properties: Mapping[str, Any]) -> Struct:
    """Inverse of `decode`.

    Raises:
        WireError: for integers beyond ±(2^53-1), numbers that are not finite, and types without a wire form.
    """
    return Struct(fields={key: _encode(value) for key, value in properties.items()})


def simplified(value: Any) -> Any:
    """The same value with every output value replaced by `UNKNOWN`, a `Secret` or its plain content."""
    if isinstance(value, OutputValue):
        inner = simplified(value.value)
        return Secret(inner) if value.secret else inner
    if isinstance(value, Secret):
        return Secret(simplified(value.value))
    return _mapped(value, simplified)


def revealed(value: Any) -> Any:
    """The same value without `Secret` markers. For handing to what needs the secret, never for showing it."""
    return revealed(value.value) if isinstance(value, Secret) else _mapped(value, revealed)


def contains_unknown(value: Any) -> bool:
    """Whether anything in `value`, at any depth, is unknown."""
    return _any(value, lambda part: part is UNKNOWN)


def contains_secret(value: Any) -> bool:
    """Whether anything in `value`, at any depth, is marked secret."""
    return _any(value, lambda part: isinstance(part, Secret) or (isinstance(part, OutputValue) and part.secret))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: change(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [change(part) for part in value]
    return value


def _any(value: Any, found: Callable[[Any], bool]) -> bool:
    return found(value) or any(_any(part, found) for part in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case Secret() | OutputValue():
            return (value.value,)
        case Opaque():
            return value.fields.values()
        case Mapping():
            return value.values()
        case list() | tuple():
            return value
    return ()


def _decode(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return UNKNOWN if value.string_value in UNKNOWN_TEXTS else value.string_value
        case "number_value":
            return _decode_number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "list_value":
            return [_decode(part) for part in value.list_value.values]
        case "struct_value":
            return _decode_object(decode(value.struct_value))
    return None


def _decode_number(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT_INTEGER else number


def _decode_object(fields: dict[str, Any]) -> Any:
    signature = fields.pop(SIGNATURE_KEY, None)
    match signature:
        case None:
            return fields
        case str() if signature == SECRET_SIGNATURE:
            return Secret(fields.get("value"))
        case str() if signature == OUTPUT_SIGNATURE:
            dependencies = tuple(fields.get("dependencies", ()))
            return OutputValue(fields.get("value", UNKNOWN), dependencies, bool(fields.get("secret", False)))
    return Opaque(signature, fields)


def _encode(value: Any) -> Value:
    match value:
        case None:
            return Value(null_value=0)
        case bool():
            return Value(bool_value=value)
        case int() | float():
            return Value(number_value=_exact(value))
        case str():
            return Value(string_value=value)
        case Unknown():
            return Value(string_value=UNKNOWN_TEXT)
        case Secret():
            return _signed(SECRET_SIGNATURE, {"value": value.value})
        case OutputValue():
            return _signed(OUTPUT_SIGNATURE, _output_fields(value))
        case Opaque():
            return _signed(value.signature, value.fields)
        case Mapping():
            return Value(struct_value=encode(value))
        case list() | tuple():
            return Value(list_value=ListValue(values=[_encode(part) for part in value]))
    raise WireError(f"a value of type {type(value).__name__} has no form on the wire")


def _exact(number: float) -> float:
    if isinstance(number, int) and abs(number) > MAX_EXACT_INTEGER:
        raise WireError(f"integer {number} is beyond ±(2^53-1), the engine would round it: use a string")
    if not math.isfinite(number):
        raise WireError(f"number {number} is not finite")
    return float(number)


def _signed(signature: str, fields: Mapping[str, Any]) -> Value:
    return Value(struct_value=encode({SIGNATURE_KEY: signature, **fields}))


def _output_fields(output: OutputValue) -> dict[str, Any]:
    fields: dict[str, Any] = {} if output.value is UNKNOWN else {"value": output.value}
    if output.dependencies:
        fields["dependencies"] = output.dependencies
    if output.secret:
        fields["secret"] = True
    return fields
