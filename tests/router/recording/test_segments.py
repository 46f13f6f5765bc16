"""The files of a recording never hold more, nor older, than the policy allows."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pulumi_infercrane.router.recording.segments import Segments

LINE = b"x" * 99 + b"\n"
START = 1_800_000_000.0


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_segments(tmp_path: Path, clock: Clock) -> Callable[..., Segments]:
    def open_segments(max_bytes: int = 4000, max_age_s: float = 400) -> Segments:
        segments = Segments(tmp_path / "rec", max_bytes, max_age_s, clock)
        segments.prepare()
        return segments

    return open_segments


def sizes(tmp_path: Path) -> list[int]:
    return [path.stat().st_size for path in sorted((tmp_path / "rec").iterdir())]


def test_only_their_owner_reads_them(tmp_path: Path, open_segments: Callable[..., Segments]) -> None:
    open_segments().append(LINE)
    (path,) = (tmp_path / "rec").iterdir()
    assert path.name == "recording-20270115T080000Z-000.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path, open_segments: Callable[..., Segments]) -> None:
    segments = open_segments()
    for _ in range(15):
        segments.append(LINE)
    assert sizes(tmp_path) == [1000, 500]


def test_bytes_are_bounded_and_the_oldest_go(
    tmp_path: Path, open_segments: Callable[..., Segments], clock: Clock
) -> None:
    segments = open_segments(max_age_s=1e9)
    for number in range(200):
        clock.now += 1
        segments.append(b"%099d\n" % number)
        assert sum(sizes(tmp_path)) <= 4000
    oldest = sorted((tmp_path / "rec").iterdir())[0]
    assert int(oldest.read_bytes().split()[0]) >= 160


def test_what_is_too_old_goes_even_without_traffic(
    tmp_path: Path, open_segments: Callable[..., Segments], clock: Clock
) -> None:
    segments = open_segments()
    segments.append(LINE)
    clock.now += 150
    segments.prune()
    segments.append(LINE)
    assert sizes(tmp_path) == [100, 100]
    clock.now += 300
    segments.prune()
    assert sizes(tmp_path) == [100]
    clock.now += 300
    segments.prune()
    assert sizes(tmp_path) == []


def test_what_an_earlier_run_left_is_bounded_too(
    tmp_path: Path, open_segments: Callable[..., Segments], clock: Clock
) -> None:
    open_segments().append(LINE)
    (tmp_path / "rec" / "notes.txt").write_text("not ours")
    clock.now += 500
    open_segments()
    assert [path.name for path in (tmp_path / "rec").iterdir()] == ["notes.txt"]


def test_a_line_that_did_not_fit_ends_its_segment(
    tmp_path: Path, open_segments: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = open_segments()
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        with pytest.raises(OSError, match="No space left"):
            segments.append(LINE)
    segments.append(LINE)
    assert sizes(tmp_path) == [10, 100]


def test_a_link_in_the_way_is_passed_by(tmp_path: Path, open_segments: Callable[..., Segments]) -> None:
    segments = open_segments()
    (tmp_path / "rec" / "recording-20270115T080000Z-000.jsonl").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    segments.append(LINE)
    assert (tmp_path / "elsewhere").read_bytes() == b""
