"""Finds a Pulumi engine for the tests and the demo, or builds one.

A `pulumi` on PATH is used when it is at least `MINIMUM` and brings its Python language host. Otherwise version
`BUILT` is compiled from its Go module, once, into a cache folder outside the checkout, and our own small language
host is put beside it, because the official one is not served as a Go module.

    python tests/engine/engine.py       prepares the engine and prints the folder to put on PATH
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MINIMUM = (3, 272, 0)
"""The Python SDK we depend on is of this version, and so is the protocol: older engines do not send a resource's
old outputs to Check, from which a release learns what serves after a partial update."""

BUILT = "v3.274.1"
GO_MODULE = Path(__file__).parent / "go"
LANGUAGE_HOST = Path(__file__).parent / "language_host.py"
PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"
EXECUTOR = "pulumi-language-python-exec"
PROGRESS_S = 10.0

Say = Callable[[str], None]


class EngineError(Exception):
    """No engine could be found or built; the message names the ways out."""


@dataclass(frozen=True)
class Engine:
    """A usable engine: the folder of its `pulumi`, its version ("v3.274.1"), and whether it is our own build."""

    folder: Path
    version: str
    built: bool

    def environment(self, home: Path, backend: Path) -> dict[str, str]:
        """Variables under which `pulumi` runs on its own: state in `backend`, plugins and workspaces in `home`.

        This interpreter's programs come first on PATH; the engine finds the provider process and Python there.
        """
        home.mkdir(parents=True, exist_ok=True)
        backend.mkdir(parents=True, exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
        search = [str(Path(sys.prefix, "bin")), str(self.folder), os.environ.get("PATH", os.defpath)]
        return inherited | {
            "PATH": os.pathsep.join(search),
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_EXPERIMENTAL": "true",
        }


def engine_environment(home: Path, backend: Path) -> dict[str, str]:
    """Prepare an engine and return the environment to run it in (see `Engine.environment`)."""
    return prepare().environment(home, backend)


def prepare(say: Say = lambda line: print(line, file=sys.stderr, flush=True)) -> Engine:
    """The engine on PATH, or the cached build, or a new build that `say` reports on.

    Raises:
        EngineError: there is no usable `pulumi`, and none can be built.
    """
    on_path, shortcoming = _on_path()
    return on_path or _our_build(shortcoming, say)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where builds and downloads outlive a checkout: `$INFERCRANE_CACHE`, or a folder in the user's cache."""
    if chosen := environ.get("INFERCRANE_CACHE"):
        return Path(chosen).expanduser().absolute()
    parent = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(parent, "pulumi-infercrane")


def _on_path() -> tuple[Engine | None, str]:
    """The engine on PATH, or why there is none."""
    program = shutil.which("pulumi")
    if program is None:
        return None, "there is no `pulumi` on PATH"
    answer = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout.strip()
    version = _parsed(answer)
    if version is None or version < MINIMUM:
        return None, f"`{program}` is {answer or 'of unknown version'}, needed is {_dotted(MINIMUM)} or newer"
    folder = Path(program).resolve().parent
    if not shutil.which("pulumi-language-python", path=f"{folder}{os.pathsep}{os.environ['PATH']}"):
        return None, f"`{program}` comes without `pulumi-language-python`"
    return Engine(Path(program).parent, answer, built=False), ""


def _parsed(version: str) -> tuple[int, int, int] | None:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def _our_build(shortcoming: str, say: Say) -> Engine:
    root = cache_folder() / "engine"
    folder = root / BUILT / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(root / f"{BUILT}.lock", say):
        if not all((folder / name).exists() for name in ("pulumi", EXECUTOR)):
            _build(folder, _go(shortcoming), say)
        _place(folder / "pulumi-language-python", LANGUAGE_HOST.read_bytes())
    return Engine(folder, BUILT, built=True)


def _go(shortcoming: str) -> str:
    if go := shutil.which("go"):
        return go
    raise EngineError(
        f"The Pulumi engine is needed, but {shortcoming}, and there is no Go to build one. Two ways out:\n"
        f"  - install Pulumi {_dotted(MINIMUM)} or newer: https://www.pulumi.com/docs/install/\n"
        f"  - install Go 1.26 or newer (https://go.dev/dl/); then {BUILT} is built once, in about 5 minutes."
    )


@contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Held by one run at a time; the operating system releases it when its holder dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("engine: another run is preparing it, waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, go: str, say: Say) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent.parent, prefix="building-") as temporary:
        if not (folder / "pulumi").exists():
            say(f"engine: building pulumi {BUILT} (once; about 5 minutes on 2 cores, seconds with a warm Go cache)")
            _compile(go, Path(temporary, "pulumi"), say)
            Path(temporary, "pulumi").replace(folder / "pulumi")
    _place(folder / EXECUTOR, _executor(go).read_bytes())


def _compile(go: str, output: Path, say: Say) -> None:
    stamp = f"-s -w -X {SDK_MODULE}/go/common/version.Version={BUILT}"
    command = [go, "build", "-v", "-trimpath", "-tags", "osusergo,grpcnotrace", "-ldflags", stamp, "-o", str(output)]
    started = time.monotonic()
    lines = []
    with _go_process([*command, PACKAGE]) as process:
        due = started + PROGRESS_S
        for line in process.stdout or ():
            lines.append(line)
            if time.monotonic() >= due:
                due += PROGRESS_S
                say(f"engine: {len(lines)} packages fetched or compiled, {time.monotonic() - started:.0f} s")
    if process.returncode != 0:
        raise EngineError(f"Building pulumi {BUILT} failed:\n{''.join(lines[-20:])}")
    say(f"engine: built in {time.monotonic() - started:.0f} s")


def _executor(go: str) -> Path:
    """Upstream's script that runs a Python program for a language host; it lies in the SDK's Go module."""
    with _go_process([go, "list", "-m", "-f", "{{.Dir}}", SDK_MODULE]) as process:
        answer = process.communicate()[0].strip()
    if process.returncode != 0:
        raise EngineError(f"Go does not find the module {SDK_MODULE}:\n{answer}")
    return Path(answer.splitlines()[-1], "python", "cmd", EXECUTOR)


def _go_process(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=GO_MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _place(path: Path, content: bytes) -> None:
    """Write an executable file in one step, so that a run that uses the old one is not disturbed."""
    if path.exists() and path.read_bytes() == content:
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).chmod(0o755)
    Path(file.name).replace(path)


if __name__ == "__main__":
    try:
        print(prepare().folder)
    except EngineError as error:
        sys.exit(str(error))
