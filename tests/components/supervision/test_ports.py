import socket
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision import ports


def test_a_port_lies_below_those_the_kernel_gives_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given_away = tmp_path / "range"
    given_away.write_text("20010\t60999\n")
    monkeypatch.setattr(ports, "EPHEMERAL", given_away)
    assert {ports.free_port() for _ in range(40)} <= set(range(20_000, 20_010))


def test_a_port_somebody_listens_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = ports.free_port()
    given_away = tmp_path / "range"
    given_away.write_text(f"{port + 1}\t60999\n")
    monkeypatch.setattr(ports, "EPHEMERAL", given_away)
    monkeypatch.setattr(ports, "LOWEST", port)
    assert ports.free_port() == port
    with socket.create_server(("127.0.0.1", port)):
        assert ports.free_port() != port


@pytest.mark.parametrize("text", [None, "", "words", "1024 65535"])
def test_there_is_a_port_where_nothing_lies_below_that_range(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given_away = tmp_path / "range"
    if text is not None:
        given_away.write_text(text)
    monkeypatch.setattr(ports, "EPHEMERAL", given_away)
    assert ports.is_free("127.0.0.1", ports.free_port())
