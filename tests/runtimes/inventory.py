"""The cache of real parts: what there is, where it lies, and how a missing piece is made.

Every piece is made beside its place and renamed into it, so a broken-off run leaves nothing half done and the next
one goes on where it stopped. `manifest.json` lists the pieces with their digests.
"""

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.runtimes import downloads, models
from tests.runtimes.downloads import PrepareError, Say, replacing, sha256_file

Manifest = dict[str, Any]  # {"server": {path, sha256, version, …}, "models": {name: {path, sha256, …}}}


@dataclass(frozen=True)
class Workshop:
    """The cache folder while pieces are being made in it."""

    cache: Path
    say: Say

    @property
    def server(self) -> Path:
        return self.cache / "llama-server" / downloads.LLAMA_SERVER.version / "llama-server"

    def model(self, name: str) -> Path:
        return self.cache / "models" / f"{name}.gguf"


@dataclass(frozen=True)
class Model:
    """A model file by name, and how it is made; models it is derived from stand before it."""

    name: str
    make: Callable[[Path, Workshop], None]


TINY = (
    Model("tiny-a", lambda path, _: models.write_tiny(path, start=1)),
    Model("tiny-b", lambda path, _: models.write_tiny(path, start=2)),
    Model("tiny-c", lambda path, _: models.write_tiny(path, start=3)),
    Model("tiny-answers-500", lambda path, _: models.write_tiny_with_broken_text(path)),
    Model("tiny-corrupt", lambda path, shop: models.write_corrupt(path, shop.model("tiny-a"))),
)
DEMO = (
    Model("smollm2-q4_1", lambda path, shop: downloads.fetch_smollm2(path, shop.cache, shop.say)),
    Model("smollm2-q8_0", lambda path, shop: _write_smollm2_variant(path, shop)),
    Model("smollm2-20-layers", lambda path, shop: _write_smollm2_variant(path, shop, keep_layers=20)),
)


def default_cache() -> Path:
    """The folder shared by every checkout of this user."""
    if chosen := os.environ.get("INFERCRANE_CACHE"):
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "pulumi-infercrane"


def prepare(wanted: Sequence[Model], *, cache: Path, say: Say) -> Manifest:
    """Make what is missing of the server and the wanted models; return the manifest of all there is.

    Raises PrepareError when a piece cannot be had.
    """
    shop = Workshop(cache, say)
    with _alone_in(cache):
        manifest = _read_manifest(cache)
        if not _is_unchanged(shop.server, manifest.get("server")):
            manifest["server"] = _fetch_server(shop)
            _write_manifest(cache, manifest)
        for model in wanted:
            if not _is_unchanged(shop.model(model.name), manifest["models"].get(model.name)):
                manifest["models"][model.name] = _make_model(shop, model)
                _write_manifest(cache, manifest)
    return manifest


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: progress on stderr, the manifest on stdout."""
    parser = argparse.ArgumentParser(prog="prepare.py", description="Fetch and make the real model servers.")
    parser.add_argument("--tiny", action="store_true", help="the tiny random models (tests)")
    parser.add_argument("--demo", action="store_true", help="SmolLM2 and its variants (demo)")
    chosen = parser.parse_args(arguments)
    wanted = [*(TINY if chosen.tiny or not chosen.demo else ()), *(DEMO if chosen.demo or not chosen.tiny else ())]
    try:
        manifest = prepare(wanted, cache=default_cache(), say=_say)
    except PrepareError as error:
        _say(f"error: {error}")
        return 1
    print(json.dumps(manifest, indent=2))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write_smollm2_variant(path: Path, shop: Workshop, keep_layers: int | None = None) -> None:
    models.write_variant(path, shop.model("smollm2-q4_1"), quantization="Q8_0", keep_layers=keep_layers)


def _fetch_server(shop: Workshop) -> Manifest:
    with replacing(shop.server.parent) as folder:
        downloads.fetch_llama_server(folder, shop.cache, shop.say)
    return {"version": downloads.LLAMA_SERVER.version, **_describe(shop.server)}


def _make_model(shop: Workshop, model: Model) -> Manifest:
    place = shop.model(model.name)
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
        "sha256": sha256_file(path),
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
