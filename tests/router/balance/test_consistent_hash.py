from collections import Counter

import pytest

from pulumi_infercrane.router.balance.consistent_hash import PREFIX, SLACK, chooser, first_bytes

PROMPTS = [b'{"messages": [{"role": "user", "content": "question %d"}]}' % number for number in range(1000)]


def test_requests_that_begin_alike_share_a_replica(endpoints) -> None:
    choose = chooser(endpoints(0, 0, 0, 0))
    begin = b'{"model": "m", "messages": [{"role": "system", "content": "%b' % (b"x" * PREFIX)
    assert len({choose(b"%d" % number, begin + b'%d"}]}' % number).id for number in range(50)}) == 1


def test_everyone_gets_some(endpoints) -> None:
    choose = chooser(endpoints(0, 0, 0, 0))
    counts = Counter(choose(b"", prompt).id for prompt in PROMPTS)
    assert all(120 < counts[name] < 400 for name in "abcd")


def test_a_replica_that_leaves_gives_up_only_its_own(endpoints) -> None:
    replicas = endpoints(0, 0, 0, 0)
    before, after = chooser(replicas), chooser(replicas[:3])
    for prompt in PROMPTS:
        chosen = before(b"", prompt).id
        assert chosen == "d" or after(b"", prompt).id == chosen


def test_the_order_in_the_table_plays_no_part(endpoints) -> None:
    replicas = endpoints(0, 0, 0, 0)
    one, other = chooser(replicas), chooser(replicas[::-1])
    assert all(one(b"", prompt).id == other(b"", prompt).id for prompt in PROMPTS)


def test_where_everybody_begins_alike_no_replica_gets_everything(endpoints) -> None:
    replicas = endpoints(0, 0, 0, 0)
    choose = chooser(replicas)
    for _ in range(400):
        choose(b"", PROMPTS[0]).replica.inflight += 1
    assert max(one.replica.inflight for one in replicas) <= 1.25 * 100 + SLACK + 1
    assert sum(one.replica.inflight for one in replicas) == 400


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (b'{"model":"m","messages":[1]}', b"[1]}"),
        (b'{"prompt" : "p"}', b' "p"}'),
        (b'{"input":["i"]}', b'["i"]}'),
        (b'{"query":"q"}', b'{"query":"q"}'),
    ],
)
def test_what_a_request_begins_with(body: bytes, first: bytes) -> None:
    assert first_bytes(body) == first
