"""Providers are found by name; a new one is one new file."""

from pathlib import Path

import pytest

from pulumi_infercrane.components import PoolSpec, providers
from pulumi_infercrane.components.providers import UnknownProvider


def test_a_provider_is_found_by_the_name_of_its_module() -> None:
    assert callable(providers.find("local").deploy)


def test_an_unknown_one_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownProvider, match=r"no provider 'mars'; there is: .*local"):
        providers.find("mars")


def test_a_new_module_is_a_new_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mars.py").write_text("def deploy(name, spec, alias, place, opts):\n    return None\n")
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(tmp_path)])
    assert PoolSpec(provider="mars").provider == "mars"
    assert providers.find("mars")
