"""Policies are found by their modules."""

import pytest

from pulumi_infercrane.router.balance import chooser_of, known_policies


def test_the_policies_there_are() -> None:
    assert known_policies() == ("consistent_hash", "least_inflight", "power_of_two", "round_robin")


@pytest.mark.parametrize("policy", known_policies())
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_policy_reaches_every_replica_and_no_other(policy, count, endpoints) -> None:
    replicas = endpoints(*[0] * count)
    choose = chooser_of(policy)(replicas)
    found = {choose(b"id-%d" % number, b'{"prompt": "%d"}' % number).id for number in range(200)}
    assert found == {replica.id for replica in replicas}
