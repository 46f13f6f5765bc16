"""What every target writes: the same bytes for the same table, little for a flip, nothing it cannot do."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export import ASPECTS, exporters, find_exporter
from pulumi_infercrane.router.export._place import Place, read_place
from pulumi_infercrane.router.export._view import losses, plain_json
from tests.router.conftest import R1, R2, revision
from tests.router.export.conftest import table_of

PROXIES = ("envoy", "haproxy", "nginx")
FLIPPED = {
    "envoy": "rds.json",
    "gateway_api": "httproute.json",
    "haproxy": "active.map",
    "inference_pool": "httproute.json",
    "nginx": "active.conf",
}
PLACE = read_place(Path("/etc/infercrane"), "127.0.0.1:8080")


def urls(target: str) -> tuple[str, str]:
    if target in PROXIES:
        return "http://127.0.0.1:9001", "http://127.0.0.1:9002"
    return "http://r1.models.svc:9001", "http://r2.models.svc.cluster.local:9002"


def both(target: str, **more: Any) -> dict[str, Any]:
    first, second = urls(target)
    return {R1: revision("r1", first), R2: revision("r2", second, **more)}


def test_every_module_is_a_target() -> None:
    assert set(exporters()) == FLIPPED.keys()


def test_an_unknown_target_is_answered_with_the_known_ones() -> None:
    for name in ("traefik", "_view", "../haproxy"):
        with pytest.raises(ExportRefused, match="known are envoy, gateway_api, haproxy, inference_pool, nginx"):
            find_exporter(name)


@pytest.mark.parametrize("target", sorted(FLIPPED))
def test_every_target_says_how_it_differs(target: str) -> None:
    assert tuple(find_exporter(target).DIFFERS) == ASPECTS


@pytest.mark.parametrize("target", sorted(FLIPPED))
def test_the_same_table_gives_the_same_bytes(target: str) -> None:
    exporter = find_exporter(target)
    table = table_of(both(target), R1, pins=[R2])
    backwards = table_of(dict(reversed(both(target).items())), R1, pins=[R2])
    assert exporter.render(table, PLACE) == exporter.render(backwards, PLACE) != {}


@pytest.mark.parametrize(("target", "file"), FLIPPED.items())
def test_a_flip_changes_one_file(target: str, file: str) -> None:
    exporter = find_exporter(target)
    table = table_of(both(target), R1)
    before, after = (exporter.render(one, PLACE) for one in (table, replace(table, active=R2, generation=2)))
    assert [name for name in after if before[name] != after[name]] == [file]


@pytest.mark.parametrize("target", PROXIES)
def test_streams_are_neither_held_nor_retried(target: str) -> None:
    said = {
        "envoy": ['"timeout": "0s"', '"idle_timeout": "700.000s"', '"max_retries": 0'],
        "haproxy": ["option abortonclose", "retries 0", "timeout server 700000", "option http-no-delay"],
        "nginx": ["proxy_buffering off", "proxy_next_upstream off", "proxy_read_timeout 700000ms", "http_version 1.1"],
    }
    table = table_of(both(target), R1, timers={"first_byte_s": 700, "gap_s": 60})
    content = b"".join(find_exporter(target).render(table, PLACE).values()).decode()
    assert [one for one in said[target] if one not in content] == []
    assert "retry" not in content


REFUSED = [
    (PROXIES, {"urls": ["https://127.0.0.1:9"]}, "exported are upstreams http://host:port"),
    (PROXIES, {"urls": ["http://127.0.0.1:9/below"]}, "exported are upstreams http://host:port"),
    (("envoy",), {"urls": ["http://model:9"]}, "endpoints are IP addresses"),
    (("gateway_api", "inference_pool"), {"urls": ["http://127.0.0.1:9"]}, "is not http://SERVICE.NAMESPACE.svc:PORT"),
    (("inference_pool",), {"urls": ["http://a.n.svc:9", "http://b.n.svc:9"]}, "one InferencePool stands for a"),
    (("gateway_api",), {"urls": ["http://a.n.svc:9", "http://b.m.svc:9"]}, "in the namespaces m, "),
    (("nginx", "gateway_api"), {"key_ref": "env:K"}, "cannot read a key from its environment"),
]


@pytest.mark.parametrize(
    ("target", "what", "why"), [(target, what, why) for targets, what, why in REFUSED for target in targets]
)
def test_what_a_target_cannot_do_is_refused(target: str, what: dict[str, Any], why: str) -> None:
    revisions = both(target)
    if "urls" in what:
        revisions[R2] = revision("r2", *what["urls"])
    else:
        revisions[R2]["upstreams"][0] |= what
    with pytest.raises(ExportRefused, match=why):
        find_exporter(target).render(table_of(revisions, R1), PLACE)


@pytest.mark.parametrize("target", PROXIES)
def test_a_url_of_an_older_table_that_a_proxy_would_read_otherwise_is_refused(target: str) -> None:
    table = table_of(both(target), R1)
    old = replace(table.declared.revisions[R2].upstreams[0], url="http://a;return:80")
    revisions = {**table.declared.revisions, R2: replace(table.declared.revisions[R2], upstreams=(old,))}
    with pytest.raises(ExportRefused, match="not http://a;return:80"):
        find_exporter(target).render(replace(table, declared=replace(table.declared, revisions=revisions)), PLACE)


def test_upstreams_of_a_revision_have_one_key() -> None:
    revisions = both("haproxy")
    revisions[R1] = revision("r1", "http://127.0.0.1:1", "http://127.0.0.1:2")
    revisions[R1]["upstreams"][0]["key_ref"] = "env:A"
    with pytest.raises(ExportRefused, match="with one key, these have 2"):
        find_exporter("haproxy").render(table_of(revisions, R1), PLACE)


def test_names_need_no_quoting_anywhere() -> None:
    name = "".join(map(chr, range(0x20, 0x7F)))
    text = plain_json({"id": name})
    assert json.loads(text) == {"id": name}
    assert set(text) & set("$%'`;#&") == set()
    assert text.count('"') == 4


def test_a_name_that_nobody_rewrites_is_told() -> None:
    table = table_of({R1: revision("r1", "http://127.0.0.1:1"), R2: revision("r2", "http://127.0.0.1:2", model="chat")})
    assert list(losses(table)) == ["r1 serves org/model; its engine will be asked for chat"]


def test_what_nobody_else_does_is_told() -> None:
    entries = {R1: revision("r1", "http://127.0.0.1:1", model="chat", health={"probe_s": 5}, answer_as_alias=True)}
    entries[R2] = revision("r2", "http://127.0.0.1:2", model="chat")
    more = {"limits": {"max_inflight": 9}, "timers": {"total_s": 900}}
    table = table_of(entries, R1, fallback=R2, mirror={"revision": R2, "percent": 5}, **more)
    assert list(losses(table)) == [
        "r1: its answers keep the name that its engine gives them",
        "r1: no replica is left out for its failures",
        "timers.total_s: an answer may take any time",
        "limits: nothing bounds what runs and waits",
        "r2 does not take over when the active revision is out",
        "nothing is copied to r2",
    ]


@pytest.mark.parametrize("target", PROXIES)
def test_a_draining_replica_is_left_out(target: str) -> None:
    entry = revision("r1", "http://127.0.0.1:9001", "http://127.0.0.1:9002")
    entry["upstreams"][1]["state"] = "draining"
    content = b"".join(find_exporter(target).render(table_of({R1: entry}, R1), PLACE).values())
    assert (b"9001" in content, b"9002" in content) == (True, False)


@pytest.mark.parametrize("folder", ["/a b", "/a;b", "/a'b", "/a$b", "/" + "a" * 80])
def test_a_folder_that_needs_quoting_is_refused(folder: str) -> None:
    with pytest.raises(ExportRefused, match="take a folder of at most 80 characters"):
        read_place(Path(folder), "127.0.0.1:1")


@pytest.mark.parametrize("listen", ["", "8080", ":1", "h:0", "h:65536", "h;x:1", "h h:1"])
def test_an_address_is_host_and_port(listen: str) -> None:
    with pytest.raises(ExportRefused, match="is not host:port"):
        read_place(Path("/a"), listen)


def test_envoy_never_names_a_cluster_that_is_not_there(place: Callable[[str], Place]) -> None:
    exporter, at = find_exporter("envoy"), place("envoy")
    first, second = both("envoy").items()
    before = exporter.render(table_of(dict([first]), R1), at)
    after = exporter.render(table_of(dict([second]), R2, 2), at)
    stages = exporter.stages(before, after)
    clusters = [[one["name"] for one in json.loads(stage["cds.json"])["resources"]] for stage in (stages[0], stages[2])]
    assert clusters == [[R2, R1], [R2]]
    assert [list(stage) for stage in stages[1:]] == [["rds.json"], ["cds.json"]]
    assert {name: content for stage in stages for name, content in stage.items()} == after
