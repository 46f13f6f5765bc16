"""How the engine is found, cached and built. No test here compiles anything: `go` and `pulumi` are small scripts."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.engine.engine import BUILT, EXECUTOR, Engine, EngineError, cache_folder, prepare

FAKE_GO = """#!/bin/sh
echo "$1" >> "{log}"
case "$1" in
  build) while [ "$1" != -o ]; do shift; done; sleep 0.2; echo '#!/bin/sh' > "$2"; chmod +x "$2" ;;
  list) echo "{sdk}" ;;
esac
"""


class Machine:
    """A search path and a cache of this test alone."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.cache = folder / "cache"
        self.go_log = folder / "go.log"
        self._sdk = folder / "sdk"
        self.bin.mkdir()
        (self._sdk / "python" / "cmd").mkdir(parents=True)
        (self._sdk / "python" / "cmd" / EXECUTOR).write_text("# runs a program\n")

    def install(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def install_go(self, script: str = FAKE_GO) -> None:
        self.install("go", script.format(log=self.go_log, sdk=self._sdk))

    def install_pulumi(self, version: str, *, language_host: bool = True) -> None:
        self.install("pulumi", f"#!/bin/sh\necho {version}\n")
        if language_host:
            self.install("pulumi-language-python", "#!/bin/sh\n")

    def go_calls(self) -> list[str]:
        return self.go_log.read_text().split() if self.go_log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    system = ":".join(("/usr/bin", "/bin"))
    monkeypatch.setenv("PATH", f"{machine.bin}:{system}")
    monkeypatch.setenv("INFERCRANE_CACHE", str(machine.cache))
    return machine


def prepared(machine: Machine) -> tuple[Engine, list[str]]:
    said: list[str] = []
    return prepare(said.append), said


def without_go(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    monkeypatch.setenv("PATH", str(machine.bin))


def test_a_new_pulumi_on_path_is_used_as_it_is(machine: Machine) -> None:
    machine.install_pulumi("v3.280.1")
    engine, said = prepared(machine)
    assert engine == Engine(machine.bin, "v3.280.1", built=False)
    assert not said
    assert not machine.cache.exists()


@pytest.mark.parametrize("version", ["v3.271.9", "v2.999.0", "unknown"])
def test_an_old_pulumi_on_path_is_not_used(machine: Machine, version: str) -> None:
    machine.install_pulumi(version)
    machine.install_go()
    engine, _ = prepared(machine)
    assert engine.built


def test_a_pulumi_without_python_host_is_not_used(machine: Machine) -> None:
    machine.install_pulumi("v3.280.1", language_host=False)
    machine.install_go()
    engine, _ = prepared(machine)
    assert engine.built


def test_a_build_holds_engine_language_host_and_executor(machine: Machine) -> None:
    machine.install_go()
    engine, said = prepared(machine)
    assert engine == Engine(machine.cache / "engine" / BUILT / "bin", BUILT, built=True)
    names = {"pulumi", "pulumi-language-python", EXECUTOR}
    assert {file.name for file in engine.folder.iterdir()} == names
    assert all(os.access(engine.folder / name, os.X_OK) for name in names)
    assert "building pulumi" in said[0]


def test_the_second_run_builds_nothing_and_needs_no_go(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install_go()
    first, _ = prepared(machine)
    without_go(monkeypatch, machine)
    (machine.bin / "go").unlink()
    assert prepared(machine) == (first, [])


def test_two_runs_at_once_build_once(machine: Machine) -> None:
    machine.install_go()
    runs = [Thread(target=prepared, args=(machine,)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert machine.go_calls() == ["build", "list"]


def test_a_failed_build_says_why_and_leaves_nothing(machine: Machine) -> None:
    machine.install_go("#!/bin/sh\necho 'no space left' >&2\nexit 1\n")
    with pytest.raises(EngineError, match="no space left"):
        prepared(machine)
    assert not (machine.cache / "engine" / BUILT / "bin" / "pulumi").exists()
    assert not list((machine.cache / "engine").glob("building-*"))


def test_without_pulumi_and_go_both_ways_out_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    without_go(monkeypatch, machine)
    with pytest.raises(EngineError) as raised:
        prepared(machine)
    assert "no `pulumi` on PATH" in str(raised.value)
    assert "install Pulumi 3.272.0 or newer" in str(raised.value)
    assert "install Go 1.26 or newer" in str(raised.value)


def test_the_command_prints_the_folder_and_nothing_else(machine: Machine) -> None:
    machine.install_pulumi("v3.280.1")
    done = run_command()
    assert (done.returncode, done.stdout.strip()) == (0, str(machine.bin))


def test_the_command_fails_with_the_ways_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    without_go(monkeypatch, machine)
    done = run_command()
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Two ways out" in done.stderr


def run_command() -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("engine.py")
    return subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"INFERCRANE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/pulumi-infercrane"),
        ({}, str(Path.home() / ".cache/pulumi-infercrane")),
    ],
)
def test_the_cache_lies_outside_the_checkout(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


def test_the_environment_keeps_a_developers_own_pulumi_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "mine")
    environment = Engine(Path("/engine"), "v3.274.1", built=True).environment(tmp_path / "h", tmp_path / "s")
    assert "PULUMI_ACCESS_TOKEN" not in environment
    assert environment["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/s"
    assert environment["PATH"].split(":")[:2] == [str(Path(sys.prefix, "bin")), "/engine"]
