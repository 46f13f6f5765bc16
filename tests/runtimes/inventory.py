"""The cache of real parts: what there is, where it lies, and how a missing piece is made.

Every piece is made beside its place and renamed into it, so a broken-off run leaves nothing half done and the next
one goes on where it stopped. `manifest.json` lists the pieces with their digests.
"""

import argparse
import fcntl
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.engine import cache_folder
from tests.runtimes import downloads, models
from tests.runtimes.downloads import PrepareError, Say, replacing, sha256_file

Manifest = dict[str, Any]
"""{"server": {path, sha256, version, …}, "models": {name: {path, sha256, …}}}, digests as `sha256:<hex>`."""


@dataclass(frozen=True)
class Workshop:
    """The cache folder while pieces are being made in it."""

    cache: Path
    say: Say

    @property
    def server(self) -> Path:
        return self.cache / "llama-server" / downloads.LLAMA_SERVER.version / "llama-server"

    def model(self, name: str) -> Path:
        return self.cache / "models" / name


@dataclass(frozen=True)
class Model:
    """A model by name, its file, and how that is made; models it is derived from stand before it."""

    name: str
    file: str
    make: Callable[[Path, Workshop], None]


TINY = (
    Model("tiny-a", "tiny-a.gguf", lambda path, _: models.write_tiny(path, start=1)),
    Model("tiny-b", "tiny-b.gguf", lambda path, _: models.write_tiny(path, start=2)),
    Model("tiny-c", "tiny-c.gguf", lambda path, _: models.write_tiny(path, start=3)),
    Model("tiny-answers-500", "tiny-answers-500.gguf", lambda path, _: models.write_tiny_with_broken_text(path)),
    Model(
        "tiny-corrupt", "tiny-corrupt.gguf", lambda path, shop: models.write_corrupt(path, shop.model("tiny-a.gguf"))
    ),
)
_SMOLLM2 = "smollm2-135m-q4_1.gguf"
DEMO = (
    Model("q4_1", _SMOLLM2, lambda path, shop: downloads.fetch_smollm2(path, shop.cache, shop.say)),
    Model("q8_0", "smollm2-135m-q8_0.gguf", lambda path, shop: _write_q8_0(path, shop)),
    Model("layers20", "smollm2-135m-20-layers.gguf", lambda path, shop: _write_q8_0(path, shop, keep_layers=20)),
)


def prepare(*, tiny: bool = False, demo: bool = False, say: Say | None = None) -> Manifest:
    """Make what is missing of the server and the chosen models; return the manifest of all there is.

    Raises PrepareError when a piece cannot be had.
    """
    return fill(cache_folder(), [*(TINY if tiny else ()), *(DEMO if demo else ())], say or _say)


def fill(cache: Path, wanted: Sequence[Model], say: Say) -> Manifest:
    """As `prepare`, for any cache folder and any models."""
    shop = Workshop(cache, say)
    with _alone_in(cache):
        manifest = _read_manifest(cache)
        if not _is_unchanged(shop.server, manifest.get("server")):
            manifest["server"] = _fetch_server(shop)
            _write_manifest(cache, manifest)
        for model in wanted:
            if not _is_unchanged(shop.model(model.file), manifest["models"].get(model.name)):
                manifest["models"][model.name] = _make_model(shop, model)
                _write_manifest(cache, manifest)
    return manifest


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: progress on stderr, the manifest on stdout."""
    parser = argparse.ArgumentParser(prog="prepare.py", description="Fetch and make the real model servers.")
    parser.add_argument("--tiny", action="store_true", help="the tiny random models (tests)")
    parser.add_argument("--demo", action="store_true", help="SmolLM2 and its variants (demo)")
    chosen = parser.parse_args(arguments)
    both = not (chosen.tiny or chosen.demo)
    try:
        manifest = prepare(tiny=chosen.tiny or both, demo=chosen.demo or both)
    except PrepareError as error:
        _say(f"error: {error}")
        return 1
    print(json.dumps(manifest, indent=2))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write_q8_0(path: Path, shop: Workshop, keep_layers: int | None = None) -> None:
    models.write_variant(path, shop.model(_SMOLLM2), quantization="Q8_0", keep_layers=keep_layers)


def _fetch_server(shop: Workshop) -> Manifest:
    with replacing(shop.server.parent) as folder:
        downloads.fetch_llama_server(folder, shop.cache, shop.say)
    return {"version": downloads.LLAMA_SERVER.version, **_describe(shop.server)}


def _make_model(shop: Workshop, model: Model) -> Manifest:
    place = shop.model(model.file)
    shop.say(f"making {place.name}")
    with replacing(place) as made:
        model.make(made, shop)
    return _describe(place)


def _is_unchanged(path: Path, known: Manifest | None) -> bool:
    """Whether the file is the one the manifest describes, by size and time: digests are taken when it is made."""
    if known is None or not path.is_file():
        return False
    status = path.stat()
    return known["path"] == str(path) and (known["size"], known["mtime_ns"]) == (status.st_size, status.st_mtime_ns)


def _describe(path: Path) -> Manifest:
    status = path.stat()
    return {
        "path": str(path),
        "sha256": "sha256:" + sha256_file(path),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
    }


@contextmanager
def _alone_in(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "runtimes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_manifest(cache: Path) -> Manifest:
    try:
        known: Manifest = json.loads((cache / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return {"models": {}}
    return known


def _write_manifest(cache: Path, manifest: Manifest) -> None:
    with replacing(cache / "manifest.json") as made:
        made.write_text(json.dumps(manifest, indent=2) + "\n")
