"""Probes tell what a server says about itself; what it does not say stays unknown."""

import pytest

from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.probes import probe, require_serving
from pulumi_infercrane.guard.collect.stream import open_session
from tests.guard.collect.scripted import StartScripted, target_of

VLLM = """\
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="chat"} 1.2e+02
vllm:prefix_cache_hits_total{engine="1",model_name="chat"} 30.0
vllm:prefix_cache_queries_total{engine="0",model_name="chat"} 1000.0
vllm:prefix_cache_queries_created{engine="0",model_name="chat"} 1.7e+09
"""
LLAMA = "llamacpp:prompt_tokens_total 40\nllamacpp:prompt_tokens_cached_total 60\n"


async def probed(scripted: StartScripted, **settings: object) -> dict[str, object]:
    server = await scripted(**settings)
    async with open_session() as session:
        return await probe(session, target_of("r2", server.url))


async def test_models_and_fingerprint(scripted: StartScripted) -> None:
    assert await probed(scripted, models=["b", "a"]) == {"models": ["a", "b"], "version": "b1-abc"}


async def test_prefix_counters_are_summed_over_engines(scripted: StartScripted) -> None:
    assert (await probed(scripted, metrics=VLLM))["prefix_cache"] == {"hits": 150, "queries": 1000}


async def test_llama_counts_cached_tokens_apart(scripted: StartScripted) -> None:
    assert (await probed(scripted, metrics=LLAMA))["prefix_cache"] == {"hits": 60, "queries": 100}


async def test_a_missing_counter_is_unknown_not_zero(scripted: StartScripted) -> None:
    assert "prefix_cache" not in await probed(scripted, metrics="llamacpp:prompt_tokens_total 40\n")


async def test_a_server_that_answers_errors_is_probed_all_the_same(scripted: StartScripted) -> None:
    assert await probed(scripted, status=500) == {"models": ["chat"]}


async def test_a_server_that_went_away_says_nothing(scripted: StartScripted) -> None:
    server = await scripted()
    await server.stop()
    async with open_session() as session:
        assert await probe(session, target_of("r2", server.url)) == {}


async def test_unreachable_names_label_and_address(scripted: StartScripted) -> None:
    server = await scripted()
    await server.stop()
    async with open_session() as session:
        with pytest.raises(CollectError, match=rf"r2 at {server.url} cannot be reached"):
            await require_serving(session, target_of("r2", server.url))


async def test_another_model_is_not_measured(scripted: StartScripted) -> None:
    server = await scripted(models=["other"])
    async with open_session() as session:
        with pytest.raises(CollectError, match="serves other, not 'chat'"):
            await require_serving(session, target_of("r2", server.url))
