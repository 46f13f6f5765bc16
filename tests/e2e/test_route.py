"""What a stack declares about its route, on real parts: it holds at once, and changes without a restart."""

import os
import re
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pulumi_infercrane.components.supervision.observing import read_record
from pulumi_infercrane.components.supervision.ports import free_port
from tests.e2e.lab import SERVICE, STACK, Lab
from tests.router.certificates import certificate

pytestmark = [pytest.mark.engine, pytest.mark.runtime]

PINNED = "x-infercrane-revision"
MESSAGES = [{"role": "user", "content": "the model"}]
ROUTE = {"pins": ["r2"], "mirror": {"revision": "r2", "percent": 100}, "timers": {"gap_s": 600}}
ONE, TWO = {"max_inflight": 1, "max_queue": 0}, {"max_inflight": 2, "max_queue": 0}


def declare(lab: Lab, *, router: dict[str, Any] | None = None, **route: Any) -> None:
    """r1 serves, r2 runs beside it; `route` is the block of that name."""
    address = {"listen": f"127.0.0.1:{lab.port}", "drainS": 2.0}
    revisions = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
    lab.declare(revisions, initialActive="r1", route=route, router=address | (router or {}))


def table(lab: Lab) -> dict[str, Any]:
    live: dict[str, Any] = lab.control("GET", f"/v1/services/{SERVICE}").json()["table"]
    return live


def told_by_hand(lab: Lab, **settings: Any) -> None:
    """Somebody puts the table with other settings at the control socket."""
    names = ("aliases", "protocols", "revisions", "pins", "timers", "limits", "mirror", "session_header", "stack")
    body = {name: value for name, value in table(lab).items() if name in names} | settings
    generation = {"If-Match": f'"{table(lab)["generation"]}"'}
    answer = lab.control("PUT", f"/v1/services/{SERVICE}", body, **generation)
    assert answer.status_code == 200, answer.text


def asked(lab: Lab, **headers: str) -> httpx.Response:
    body = {"model": SERVICE, "max_tokens": 4, "messages": MESSAGES}
    return httpx.post(f"{lab.url}/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)


def pid_of(lab: Lab, process: str) -> int:
    """Of the process whose name begins so."""
    (folder,) = (lab.place.root / "processes").glob(f"{process}*")
    record = read_record(folder)
    assert record is not None
    return int(record["child"]["pid"])


def mirrored(lab: Lab, revision: str) -> bool:
    """Whether a copy has ended at a revision, within a few seconds."""
    begin = f'infercrane_router_mirrored_total{{service="{SERVICE}",revision="{revision}"'
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = lab.control("GET", "/metrics").text.splitlines()
        if any(line.startswith(begin) and not line.endswith(" 0") for line in lines):
            return True
        time.sleep(0.1)
    return False


@contextmanager
def open_stream(lab: Lab) -> Iterator[Iterator[str]]:
    """A stream of r1 that has begun; it goes on when it is read further, for until then its server stands still."""
    body = {"model": SERVICE, "stream": True, "max_tokens": 400, "ignore_eos": True, "messages": MESSAGES}
    server = pid_of(lab, "r1-")
    with httpx.stream("POST", f"{lab.url}/chat/completions", json=body, timeout=30, trust_env=False) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.kill(server, signal.SIGSTOP)
        try:
            yield going_on(lines, server)
        finally:
            os.kill(server, signal.SIGCONT)


def going_on(lines: Iterator[str], server: int) -> Iterator[str]:
    os.kill(server, signal.SIGCONT)
    yield from lines


def test_what_is_declared_about_a_route_holds_and_changes_in_place(lab: Lab) -> None:
    declare(lab, limits=ONE, **ROUTE)
    first = lab.up()
    router = pid_of(lab, f"{SERVICE}-router")
    digests = {name: revision["digest"] for name, revision in lab.status()["revisions"].items()}
    assert asked(lab).headers[PINNED] == digests["r1"]
    assert asked(lab, **{PINNED: "r2"}).headers[PINNED] == digests["r2"]
    assert asked(lab, **{PINNED: "r1"}).json()["error"]["code"] == "pin_not_allowed"
    assert mirrored(lab, digests["r2"])

    with open_stream(lab) as stream:
        over = asked(lab, **{PINNED: "r2"})
        assert (over.status_code, over.json()["error"]["code"]) == (503, "overloaded")
        assert int(over.headers["retry-after"]) > 0

        declare(lab, limits=TWO, **ROUTE)
        preview = lab.pulumi("preview", "--diff", "--stack", STACK).text
        assert re.search(r"max_inflight *: 1 => 2", preview)
        assert "1 to update" in preview
        assert "replace" not in preview
        second = lab.up()
        assert (second["changed"], second["decision_id"]) == (True, first["decision_id"])
        assert asked(lab, **{PINNED: "r2"}).status_code == 200
        assert pid_of(lab, f"{SERVICE}-router") == router
        assert "data: [DONE]" in list(stream)

    lab.pulumi("preview", "--expect-no-changes", "--stack", STACK)


def test_what_was_changed_by_hand_is_shown_and_what_is_not_declared_is_kept(lab: Lab) -> None:
    declare(lab, limits=ONE)
    lab.up()
    told_by_hand(lab, limits={"max_inflight": 7}, session_header="x-session")
    preview = lab.pulumi("preview", "--diff", "--stack", STACK).text
    assert re.search(r"max_inflight *: 7 => 1", preview)
    assert lab.up()["changed"]
    assert table(lab)["limits"]["max_inflight"] == 1
    assert table(lab)["session_header"] == "x-session"

    declare(lab)
    assert lab.up()["changed"]
    assert "limits" not in table(lab)
    assert table(lab)["session_header"] == "x-session"


def test_keys_are_required_by_the_stack_and_made_at_the_router(lab: Lab) -> None:
    declare(lab, router={"requireKeys": True, "accessLog": "access.jsonl"})
    lab.up()
    assert asked(lab).json()["error"]["code"] == "missing_api_key"
    control = ["--control", str(lab.place.control)]
    made = lab.guard("router", "key", "new", "ci", "--service", SERVICE, "--requests-per-minute", "1", *control)
    bearer = {"authorization": f"Bearer {made.out.strip()}"}
    assert asked(lab, **bearer).status_code == 200
    assert asked(lab, **bearer).status_code == 429
    assert made.out.strip() not in lab.pulumi("stack", "export", "--stack", STACK).out
    assert len((lab.project / "access.jsonl").read_text().splitlines()) == 3

    router = pid_of(lab, f"{SERVICE}-router")
    declare(lab)
    refused = lab.infercrane("up", "-s", STACK, code=1)
    assert "chat-router" in refused.text
    assert "What the router is started with has changed" in refused.text
    assert pid_of(lab, f"{SERVICE}-router") == router


def test_the_router_is_started_as_declared(lab: Lab) -> None:
    chain, key = certificate(lab.project, "localhost")
    status = f"127.0.0.1:{free_port()}"
    flags = {"tls": {"cert": chain.name, "key": key.name}, "workers": 2, "maxConnections": 50, "status": status}
    flags |= {"trustedProxies": ["10.0.0.0/8"], "idleS": 30, "maxBody": 1000}
    declare(lab, router=flags, limits=ONE)
    lab.up()
    url = lab.pulumi("stack", "output", "url", "--stack", STACK).out.strip()
    assert url == lab.url.replace("http:", "https:")
    trusting = ssl.create_default_context(cafile=str(chain))
    trusting.check_hostname = False
    assert httpx.get(f"{url}/models", verify=trusting, trust_env=False).json()["data"][0]["id"] == SERVICE
    large = {"model": SERVICE, "messages": [{"role": "user", "content": "x" * 1000}]}
    assert httpx.post(f"{url}/chat/completions", json=large, verify=trusting, trust_env=False).status_code == 413
    assert httpx.get(f"http://{status}/readyz", trust_env=False).json()["ready"]
    assert 'infercrane_router_workers{state="serving"} 2' in httpx.get(f"http://{status}/metrics", trust_env=False).text
    lab.pulumi("preview", "--expect-no-changes", "--stack", STACK)
