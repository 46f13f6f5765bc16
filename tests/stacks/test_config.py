"""Configuration of a stack: what is accepted, and where the finger points when something is wrong."""

import json
from pathlib import Path

import pytest

from pulumi_infercrane.components import Health, Mirror, RouteArgs, RouterArgs, ServiceLimits, TlsFiles
from pulumi_infercrane.stacks.config import StackConfig, from_engine, from_file
from pulumi_infercrane.stacks.errors import ConfigError
from pulumi_infercrane.stacks.project import find_project

WEIGHTS = "sha256:" + "a" * 64
SERVER = "sha256:" + "b" * 64
GOOD = f"""\
config:
  infercrane:service: chat
  infercrane:candidate: r2
  infercrane:initialActive: r1
  infercrane:policy: guard/policy.yaml
  infercrane:router: {{listen: "127.0.0.1:8123", drainS: 5.0}}
  infercrane:revisions:
    r1:
      model: {{path: models/m.gguf, sha256: "{WEIGHTS}"}}
      runtime:
        engine: llama.cpp
        version: b1
        executable: llama-server
        sha256: "{SERVER}"
        settings: {{max_context_len: 512, threads: 1}}
    r2:
      file: revisions/r2.yaml
"""
SECOND = f"""\
model: {{path: models/m.gguf, sha256: "{WEIGHTS}"}}
runtime:
  engine: llama.cpp
  version: b1
  executable: bin/llama-server
  sha256: "{SERVER}"
  settings: {{max_context_len: 512, threads: 2}}
"""


def configured(folder: Path, text: str = GOOD, second: str = SECOND) -> StackConfig:
    (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (folder / "Pulumi.dev.yaml").write_text(text)
    (folder / "revisions").mkdir(exist_ok=True)
    (folder / "revisions" / "r2.yaml").write_text(second)
    return from_file(find_project(folder, "dev"))


def test_a_whole_configuration(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert (config.service, config.candidate, config.initial_active) == ("chat", "r2", "r1")
    assert [spec.name for spec in config.revisions] == ["r1", "r2"]
    assert config.policy == tmp_path / "guard" / "policy.yaml"
    assert config.router.listen == "127.0.0.1:8123"
    assert config.candidate_digest == config.revision("r2").digest


def test_paths_are_meant_from_the_project_and_bare_names_from_path(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert config.revision("r1").model.path == str(tmp_path / "models/m.gguf")
    assert config.revision("r1").runtime.executable == "llama-server"
    assert config.revision("r2").runtime.executable == str(tmp_path / "bin/llama-server")


def test_the_place_of_files_is_not_part_of_the_identity(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    assert configured(one).candidate_digest == configured(two).candidate_digest


def test_the_program_reads_the_same_from_the_engine(tmp_path: Path) -> None:
    config = configured(tmp_path)
    import yaml

    given = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in yaml.safe_load(GOOD)["config"].items()
    }
    assert from_engine(tmp_path, "dev", {"PULUMI_CONFIG": json.dumps(given)}) == config


def test_a_secret_in_our_namespace_is_refused(tmp_path: Path) -> None:
    environment = {
        "PULUMI_CONFIG": json.dumps({"infercrane:service": "chat"}),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(["infercrane:service"]),
    }
    with pytest.raises(ConfigError, match="only by reference"):
        from_engine(tmp_path, "dev", environment)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("infercrane:candidate", "infercrane:candidat"),
            r"Pulumi\.dev\.yaml:3: infercrane:candidat: unknown key, did you mean 'candidate'",
        ),
        (
            ("infercrane:candidate: r2", "infercrane:candidate: r3"),
            r"Pulumi\.dev\.yaml:3: candidate: 'r3' is not declared, did you mean",
        ),
        (
            ("infercrane:initialActive: r1", "infercrane:initialActive: rx"),
            r"dev\.yaml:4: initialActive: 'rx' is not declared",
        ),
        (("    r2:\n", "    r1:\n"), r"Pulumi\.dev\.yaml:16: 'r1' is given twice, first in line 8"),
        (("threads: 1", "thread: 1"), r"Pulumi\.dev\.yaml:15: .*settings\.thread.*did you mean threads"),
        (("threads: 1", "threads: -1"), r"Pulumi\.dev\.yaml:\d+: .*threads"),
        (("127.0.0.1:8123", "0.0.0.0:8123"), r"Pulumi\.dev\.yaml:6: infercrane:router\.listen"),
        (("drainS", "drain"), r"Pulumi\.dev\.yaml:6: infercrane:router\.drain: unknown key, did you mean 'drainS'"),
        (("  infercrane:service: chat\n", ""), r"infercrane:service: is missing"),
        (("llama.cpp", "lama.cpp"), r"Pulumi\.dev\.yaml:11: .*lama\.cpp.*llama\.cpp"),
        ((f"{SERVER}", "latest"), r"Pulumi\.dev\.yaml:14: .*sha256"),
        (("revisions/r2.yaml", "../r2.yaml"), r"Pulumi\.dev\.yaml:16: \.\./r2\.yaml lies outside the project"),
        (("revisions/r2.yaml", '"a\\0b"'), r"Pulumi\.dev\.yaml:17: a text cannot have a NUL in it"),
        (("revisions/r2.yaml", "revisions/none.yaml"), r"none\.yaml: cannot be read"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_field(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, GOOD.replace(*change))


ROUTED = """\
  infercrane:router:
    requireKeys: true
    listen: "0.0.0.0:8443"
    tls: {cert: tls/chain.pem, key: tls/key.pem}
    workers: 2
    maxConnections: 500
    status: "127.0.0.1:9100"
    accessLog: "-"
    record: record.yaml
    trustedProxies: [10.0.0.0/8, "::1"]
    idleS: 900
    maxBody: 33554432
  infercrane:route:
    limits:
      max_inflight: 64
      queue_timeout_s: 2.5
    pins: [r2]
    mirror: {revision: r2, percent: 10}
    fallback: r1
    balance: least_inflight
    health: {probe_s: 10}
"""


def with_route(change: tuple[str, str] = ("", "")) -> str:
    line = '  infercrane:router: {listen: "127.0.0.1:8123", drainS: 5.0}\n'
    assert line in GOOD
    assert change[0] in ROUTED
    return GOOD.replace(line, ROUTED.replace(*change) if change[0] else ROUTED)


def test_what_the_router_and_the_route_are_told(tmp_path: Path) -> None:
    config = configured(tmp_path, with_route())
    assert config.route == RouteArgs(
        limits=ServiceLimits(max_inflight=64, queue_timeout_s=2.5),
        pins=["r2"],
        mirror=Mirror("r2", 10),
        fallback="r1",
        balance="least_inflight",
        health=Health(probe_s=10),
    )
    assert config.router.arguments(config.root) == RouterArgs(
        listen="0.0.0.0:8443",
        require_keys=True,
        tls=TlsFiles(str(tmp_path / "tls/chain.pem"), str(tmp_path / "tls/key.pem")),
        workers=2,
        max_connections=500,
        status="127.0.0.1:9100",
        access_log="-",
        record=str(tmp_path / "record.yaml"),
        trusted_proxies=("10.0.0.0/8", "::1"),
        idle_s=900,
        max_body=1 << 25,
    )


def test_a_route_changes_no_digest(tmp_path: Path) -> None:
    assert configured(tmp_path, with_route()).candidate_digest == configured(tmp_path).candidate_digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("limits:", "limit:"), r"yaml:19: infercrane:route\.limit: unknown field; known are pins, .*limits"),
        (
            ("queue_timeout_s", "queue_timeout"),
            r"yaml:21: infercrane:route\.limits\.queue_timeout: unknown field; known",
        ),
        (("64", "many"), r"yaml:20: infercrane:route\.limits\.max_inflight: must be a whole number from 1 to"),
        (("2.5", "0"), r"yaml:21: infercrane:route\.limits\.queue_timeout_s: must be seconds, from 0\.001 to 86400"),
        (
            ("[r2]", "[r1, r3]"),
            r"yaml:22: infercrane:route\.pins\[1\]: no revision 'r3' is declared; declared are r1, r2",
        ),
        (("revision: r2", "revision: r9"), r"yaml:23: infercrane:route\.mirror\.revision: no revision 'r9'"),
        (
            ("percent: 10", "percent: 101"),
            r"yaml:23: infercrane:route\.mirror\.percent: must be a whole number from 1 to 100",
        ),
        (("fallback: r1", "fallback: [r1]"), r"yaml:24: infercrane:route\.fallback: "),
        (("least_inflight", "fastest"), r"yaml:25: infercrane:route\.balance: must be one of consistent_hash, "),
        (("requireKeys: true", "requireKeys: 1"), r"yaml:7: infercrane:router\.requireKeys: "),
        (("requireKeys: true", "requireKeys: false"), r"yaml:8: infercrane:router\.listen: .*loopback only"),
        (("0.0.0.0:8443", "unix:/run/x.sock"), r"yaml:8: infercrane:router\.listen: .*no host:port"),
        (("key: tls", "ky: tls"), r"yaml:9: infercrane:router\.tls\.ky: unknown key, did you mean 'key'"),
        (("workers: 2", "workers: 300"), r"yaml:10: infercrane:router\.workers: .*256"),
        (("10.0.0.0/8", "10.0.0.1/8"), r"yaml:15: infercrane:router\.trustedProxies: 10\.0\.0\.1/8 has host bits set"),
        (("[10.0.0.0/8, ", "[0.0.0.0/0, "), r"yaml:15: infercrane:router\.trustedProxies: .*every client could say"),
        (("idleS: 900", "idleS: 0"), r"yaml:16: infercrane:router\.idleS: must be above 0"),
        (("maxBody: 33554432", "maxBody: 0"), r"yaml:17: infercrane:router\.maxBody: .*1"),
        (("127.0.0.1:9100", "9100"), r"yaml:12: infercrane:router\.status: '9100' is not host:port"),
    ],
)
def test_a_mistake_about_the_route_is_named_with_file_line_and_field(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(tmp_path, with_route(change))


def test_a_mistake_in_a_revision_file_is_named_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"r2\.yaml:4: runtime\.sha: unknown key|r2\.yaml:6: runtime\.sha25: unknown key, did you mean 'sha256'",
    ):
        configured(tmp_path, second=SECOND.replace("  sha256:", "  sha25:"))


def test_without_a_project_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no Pulumi\.yaml.*-C"):
        find_project(tmp_path, None)


def test_the_only_stack_need_not_be_named(tmp_path: Path) -> None:
    configured(tmp_path)
    assert find_project(tmp_path / "revisions", None).stack == "dev"
    (tmp_path / "Pulumi.prod.yaml").write_text("config: {}\n")
    with pytest.raises(ConfigError, match="dev, prod"):
        find_project(tmp_path, None)


def test_without_a_stack_the_way_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    with pytest.raises(ConfigError, match=r"no Pulumi\.<stack>\.yaml in .*pulumi stack init"):
        find_project(tmp_path, None)


def test_a_stack_without_settings_is_told_which_there_are(tmp_path: Path) -> None:
    configured(tmp_path)
    with pytest.raises(ConfigError, match=r"Pulumi\.prdo\.yaml: no such file.*there are: dev$"):
        find_project(tmp_path, "prdo")
