"""An archive is read within bounds or refused; nothing in it decides where, or how much, is written."""

import io
import zipfile
import zlib

import pytest
import zstandard

from pulumi_infercrane.guard.evidence.reading import archive
from pulumi_infercrane.guard.evidence.reading.archive import members
from pulumi_infercrane.guard.reasons import Inadmissible

TEXT = b'{"scores": [1, 0]}' * 50


def zipped(*names: str, content: bytes = TEXT, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as file:
        for name in names or ("a.json",):
            file.writestr(zipfile.ZipInfo(name), content, method)
    return data.getvalue()


def with_zstandard(content: bytes = TEXT, packed: bytes | None = None) -> bytes:
    """One member by hand: `zipfile` cannot write method 93 everywhere."""
    packed = zstandard.ZstdCompressor().compress(content) if packed is None else packed
    stored = zipped(content=packed, method=zipfile.ZIP_STORED)
    old, new = ((method, zlib.crc32(body), len(packed), len(body)) for method, body in ((0, packed), (93, content)))
    for _ in range(2):  # the local header and the directory
        stored = stored.replace(fields(*old), fields(*new), 1)
    return stored


def fields(method: int, checksum: int, packed: int, size: int) -> bytes:
    time = bytes.fromhex("00002100")
    numbers = (number.to_bytes(4, "little") for number in (checksum, packed, size))
    return method.to_bytes(2, "little") + time + b"".join(numbers)


def read(data: bytes) -> list[tuple[str, bytes]]:
    return list(members(data, lambda name: True))


def problem(data: bytes) -> str:
    with pytest.raises(Inadmissible) as raised:
        read(data)
    return str(raised.value)


@pytest.mark.parametrize("data", [zipped(), zipped(method=zipfile.ZIP_STORED), with_zstandard()])
def test_every_known_method_gives_the_content(data):
    assert read(data) == [("a.json", TEXT)]


def test_a_member_may_have_several_frames():
    half = len(TEXT) // 2
    frames = b"".join(zstandard.ZstdCompressor().compress(part) for part in (TEXT[:half], TEXT[half:]))
    assert read(with_zstandard(packed=frames)) == [("a.json", TEXT)]


def test_only_wanted_members_are_unpacked():
    damaged = zipped("a.json", "b.json").replace(zipped("a.json")[36:60], bytes(24), 1)
    assert problem(damaged).startswith("bad_value: ")
    assert [name for name, _ in members(damaged, "b.json".__eq__)] == ["b.json"]


@pytest.mark.parametrize("name", ["../a.json", "/a.json", "samples/../../a", "a\\b", "a\nb"])
def test_a_path_that_leaves_the_archive_is_refused(name):
    assert problem(zipped(name)).startswith("bad_value: member ")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_refused():
    assert problem(zipped("a.json", "a.json")) == "bad_value: two members of the archive have one name"


def test_a_member_far_larger_than_it_is_packed_is_a_bomb():
    data = zipped(content=bytes(3 * 1024 * 1024))
    assert problem(data) == "bomb: member 'a.json' is more than 200 times as large when unpacked"


@pytest.mark.parametrize(("limit", "words"), [("MAX_MEMBERS", "2 members"), ("MAX_TOTAL", "1800 bytes")])
def test_too_much_is_a_bomb(monkeypatch, limit, words):
    monkeypatch.setattr(archive, limit, 1)
    assert problem(zipped("a.json", "b.json")).startswith(f"bomb: {words}")


def test_one_member_beyond_the_cap_is_a_bomb(monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    assert problem(zipped()) == "bomb: member 'a.json' has 900 bytes, at most 100"


def test_a_member_that_unpacks_to_more_than_it_says_is_not_unpacked_further():
    liar = zipped().replace(len(TEXT).to_bytes(4, "little"), (90).to_bytes(4, "little"))
    assert problem(liar) == "bad_value: member 'a.json' does not unpack to what the archive says"
    liar = with_zstandard().replace(len(TEXT).to_bytes(4, "little"), (90).to_bytes(4, "little"))
    assert problem(liar) == "bad_value: member 'a.json' does not unpack to what the archive says"


def test_a_wrong_checksum_is_refused():
    data = zipped(method=zipfile.ZIP_STORED).replace(b"scores", b"scorez", 1)
    assert "does not unpack" in problem(data)


def test_an_unknown_method_is_refused():
    assert problem(zipped(method=zipfile.ZIP_LZMA)) == "bad_value: member 'a.json' is compressed by method 14"


def test_a_broken_stream_is_refused():
    assert problem(with_zstandard(packed=b"no frame at all")).startswith("bad_value: a member cannot be unpacked")


def test_an_encrypted_member_is_refused():
    data = bytearray(zipped())
    data[data.rindex(b"PK\1\2") + 8] |= 1
    assert problem(bytes(data)) == "bad_value: member 'a.json' is encrypted"


@pytest.mark.parametrize("data", [b"PK", b"PK\3\4" + bytes(100), zipped()[:-10], zipped()[10:]])
def test_what_is_no_archive_is_refused(data):
    assert problem(data).split(":")[0] in ("not_json", "bad_value")
