"""The acceptance table of the guard beside the published rules of the Go project: `make simulate`.

Prints the rows, writes `.bench/simulate.json`, the committed `results.json` and the table of `docs/simulation.md`.
"""

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from benchmarks.rows import FOLDER
from benchmarks.simulate import page, sweep
from benchmarks.simulate.acceptance import cells


def main() -> None:
    """The whole sweep; `--scale 0.1` draws a tenth and leaves the committed files alone."""
    scale = float(sys.argv[sys.argv.index("--scale") + 1]) if "--scale" in sys.argv else 1.0
    started = time.process_time()
    print(f"{'situation':70}{'ours, %':>14}{'peer, %':>9}{'goal':>7}  holds")
    rows = []
    for row in sweep.rows(tuple(cells()), scale):
        rows.append(_document(row))
        _print(row)
    print(f"{time.process_time() - started:.0f} s of one core")
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "simulate.json").write_text(text)
    if scale == 1.0:
        page.RESULTS.write_text(text)
        page.PAGE.write_text(page.render(page.PAGE.read_text(), rows))


def _document(row: sweep.Row) -> dict[str, Any]:
    """JSON of a row; shares to five digits."""
    figures = {"ratio": row.ratio, "error": row.error}
    rounded = {name: None if value is None else round(value, 5) for name, value in figures.items()}
    return asdict(row) | {"ours": round(row.ours, 5), "peer": round(row.peer, 5)} | rounded | {"holds": row.holds}


def _print(row: sweep.Row) -> None:
    holds = {True: "yes", False: "NO", None: ""}[row.holds]
    ours = f"{100 * row.ours:.1f} ± {100 * row.error:.1f}"
    goal = "" if row.goal is None else f"{100 * row.goal:g}"
    metric = f"{row.group[:16]}: {row.metric}"
    print(f"{metric:70}{ours:>14}{100 * row.peer:>9.1f}{goal:>7}  {holds}", flush=True)


if __name__ == "__main__":
    main()
