"""`make clean-demo`: every process the demo started and every file it made, gone."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pulumi_infercrane.components.place import Place


def clean(root: Path, keep: Sequence[str] = ()) -> None:
    """Stop what runs in the demo's place, then remove `root` but for the files named in `keep`."""
    from pulumi_infercrane.components.supervision.stopping import stop_all

    for place in (root / "state").glob("*@*"):
        stop_all(Place(place).root)
    for entry in root.glob("*"):
        if entry.name in keep:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if root.exists() and not any(root.iterdir()):
        root.rmdir()


if __name__ == "__main__":
    clean(Path(__file__).parents[2] / ".demo")
