"""CPU per streamed event and per request, delays and memory of our router and its peers doing the same, in one run.

Every data plane gets one core with all its threads and processes; the load generator and the model server share
another and never sleep during small requests. Each is set up as carefully as we know how: one worker, no retries, no
access log, every connection kept. Rounds are interleaved, rows show medians. A cell measured under foreign load is
measured again.

What is compared is *ours, all on*: keys with budgets, limits, health probes, access log, histograms, which the
peers do without. *Ours, bare* is beside it. "Added" is what comes on top of the model server asked directly.

LiteLLM and Starlette with httpx would drown in a thousand streams: a core of theirs does not get through 20,000 events
a second. They get 10 streams, on which everybody pays more for an event, so ours is measured with 10 too.

Several workers: requests per second of two beside one, on the same two cores. With four cores the tools have two of
their own, and two workers can do twice as much. With two cores the tools run there too, in both cells, and sleep while
they wait: two workers can at most fill what one leaves idle. CPU per request must not grow with the second one.

.venv/bin/python -m benchmarks.router --peers nginx,envoy --rounds 1
"""

import argparse

from benchmarks.router import page, report
from benchmarks.router.goals import rows
from benchmarks.router.plan import Plan
from benchmarks.router.proxies import PEERS
from benchmarks.router.rounds import run
from benchmarks.rows import publish


def main() -> None:
    plan, write = chosen()
    found = run(plan)
    publish("router", rows(found))
    if write:
        report.write(found)
        page.write(report.read())


def chosen() -> tuple[Plan, bool]:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=Plan.rounds)
    arguments.add_argument("--streams", type=int, default=Plan.streams)
    arguments.add_argument("--measure", type=float, default=Plan.measure_s, metavar="SECONDS")
    arguments.add_argument("--peers", default=",".join(PEERS), help="names with commas between, of: %(default)s")
    arguments.add_argument("--page", action="store_true", help="rewrite the tables of docs/performance.md")
    found = arguments.parse_args()
    peers = tuple(name.strip() for name in found.peers.split(",") if name.strip())
    if unknown := set(peers) - set(PEERS):
        arguments.error(f"unknown peers {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    return Plan(found.rounds, found.streams, found.measure, peers), found.page


if __name__ == "__main__":
    main()
