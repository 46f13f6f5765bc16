"""The registry of inference servers."""

import pytest

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.runtimes import StartFailure, UnknownRuntime


def test_an_engine_is_found_by_its_own_name() -> None:
    assert runtimes.find("llama.cpp").name == "llama.cpp"


@pytest.mark.parametrize("name", ["llama_cpp", "LLAMA.CPP", "vllm", "", "../llama.cpp"])
def test_any_other_name_is_refused_with_the_names_that_exist(name: str) -> None:
    with pytest.raises(UnknownRuntime, match=r"there is: .*llama\.cpp"):
        runtimes.find(name)


def test_every_module_offers_what_the_contract_says() -> None:
    for name in runtimes.names():
        runtime = runtimes.find(name)
        settings = runtime.parse_settings({})
        command = runtime.command(runtimes.Launch("server", "model", "alias"), settings, ())
        assert command[0] == "server"
        assert {"model", "alias", "{port}"} <= set(command)
        assert runtime.readiness.health_path.startswith("/")
        assert runtime.how_to_install
        assert all(isinstance(failure, StartFailure) for failure in runtime.failures)


def test_the_first_known_cause_wins_over_later_and_vaguer_ones() -> None:
    log = "E gguf_init: failed to open GGUF file 'x'\nE srv: exiting due to model loading error\n"
    failure = runtimes.start_failure(runtimes.find("llama.cpp"), log)
    assert failure is not None
    assert failure.reason == "model_path_missing"
    assert runtimes.start_failure(runtimes.find("llama.cpp"), "all is well") is None
