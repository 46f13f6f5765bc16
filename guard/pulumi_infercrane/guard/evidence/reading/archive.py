"""Members of a zip archive, one at a time, each within bounds; nothing is ever written to disk.

Reads what `zipfile` finds, and also members compressed with Zstandard (method 93), which `zipfile` knows only from
Python 3.14 on; for those the extra `inspect` must be installed.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import MAX_BYTES

EXTRA = "pip install 'pulumi-infercrane[inspect]'"
MAX_MEMBERS = 200_000
MAX_TOTAL = 4 * MAX_BYTES
MAX_RATIO = 200
"""Beyond this a member is no text a model wrote but a bomb. Small ones may compress better."""

_FREE_OF_RATIO = 1024 * 1024
_MAX_WINDOW = 128 * 1024 * 1024
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OSError,
    EOFError,
    IndexError,
    OverflowError,
    struct.error,
)


def members(data: bytes, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every wanted member, in the order of the archive.

    Raises:
        Inadmissible: `not_json` (no readable archive), `bomb`, `bad_value` (a path that leaves the archive, a name
            that occurs twice, encryption, a wrong checksum, a method nobody can read here).
    """
    found = _directory(data)
    _check(found)
    for member in found:
        if wanted(member.filename):
            yield member.filename, _content(data, member)


def _directory(data: bytes) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.infolist()
    except _BROKEN as error:
        raise Inadmissible("not_json", f"not a readable zip archive: {error}") from error


def _check(found: list[zipfile.ZipInfo]) -> None:
    if len(found) > MAX_MEMBERS:
        raise Inadmissible("bomb", f"{len(found)} members in the archive, at most {MAX_MEMBERS} are read")
    total = sum(member.file_size for member in found)
    if total > MAX_TOTAL:
        raise Inadmissible("bomb", f"{total} bytes when unpacked, at most {MAX_TOTAL} are read")
    if len({member.filename for member in found}) < len(found):
        raise Inadmissible("bad_value", "two members of the archive have one name")
    for member in found:
        _check_member(member)


def _check_member(member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename or not member.filename.isprintable():
        raise Inadmissible("bad_value", f"member {member.filename!r} has a path that leaves the archive")
    if member.file_size > MAX_BYTES:
        raise Inadmissible("bomb", f"member {member.filename!r} has {member.file_size} bytes, at most {MAX_BYTES}")
    if member.file_size > _FREE_OF_RATIO and member.file_size > MAX_RATIO * member.compress_size:
        raise Inadmissible("bomb", f"member {member.filename!r} is more than {MAX_RATIO} times as large when unpacked")
    if member.flag_bits & _ENCRYPTED:
        raise Inadmissible("bad_value", f"member {member.filename!r} is encrypted")


def _content(data: bytes, member: zipfile.ZipInfo) -> bytes:
    unpack = _METHODS.get(member.compress_type)
    if unpack is None:
        raise Inadmissible("bad_value", f"member {member.filename!r} is compressed by method {member.compress_type}")
    content = unpack(_compressed(data, member), member.file_size)
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise Inadmissible("bad_value", f"member {member.filename!r} does not unpack to what the archive says")
    return content


def _compressed(data: bytes, member: zipfile.ZipInfo) -> bytes:
    try:
        magic, name, extra = _LOCAL_HEADER.unpack_from(data, member.header_offset)
    except struct.error as error:
        raise Inadmissible("bad_value", f"member {member.filename!r} lies outside the archive") from error
    start = member.header_offset + _LOCAL_HEADER.size + name + extra
    if magic != b"PK\3\4" or start + member.compress_size > len(data):
        raise Inadmissible("bad_value", f"member {member.filename!r} lies outside the archive")
    return data[start : start + member.compress_size]


def _stored(packed: bytes, size: int) -> bytes:
    return packed


def _deflated(packed: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
    except zlib.error as error:
        raise Inadmissible("bad_value", f"a member cannot be unpacked: {error}") from error


def _zstandard(packed: bytes, size: int) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        text = f"the log is compressed with Zstandard: {EXTRA}, or dump it as JSON with `inspect log dump`"
        raise Inadmissible("tool_unknown", text) from error
    try:
        unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            return bytes(stream.read(size + 1))
    except zstandard.ZstdError as error:
        raise Inadmissible("bad_value", f"a member cannot be unpacked: {error}") from error


_METHODS = {zipfile.ZIP_STORED: _stored, zipfile.ZIP_DEFLATED: _deflated, 93: _zstandard}
