"""Keys of upstreams are fit for a header line, or there is none."""

import pytest

from pulumi_infercrane.router.routing.upstream_keys import UpstreamKeys


@pytest.mark.parametrize("value", ["sk-secret", "sk-secret\n", " sk-secret\r\n", "\tsk-secret "])
def test_blanks_around_a_key_are_no_part_of_it(value: str) -> None:
    keys = UpstreamKeys({"K": value})
    assert (keys.find("env:K"), keys.why_unusable("env:K")) == ("sk-secret", "")


@pytest.mark.parametrize("environment", [{}, {"K": ""}, {"K": " \n"}])
def test_an_empty_key_is_none(environment: dict[str, str]) -> None:
    keys = UpstreamKeys(environment)
    assert (keys.find("env:K"), keys.why_unusable("env:K")) == (None, "env:K is not set where the router runs")


@pytest.mark.parametrize("value", ["sk-secret\nX-Admin: 1", "sk secret", "sk-sécret", "sk-secret\x00", "sk-\x7f"])
def test_what_would_break_a_header_line_is_no_key_and_is_not_repeated(value: str) -> None:
    keys = UpstreamKeys({"K": value})
    assert keys.find("env:K") is None
    why = keys.why_unusable("env:K")
    assert why == "env:K holds something else than visible ASCII characters where the router runs"
