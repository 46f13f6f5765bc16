"""A policy file gives a policy, or a PolicyError that names the line."""

from collections.abc import Iterator

from pulumi_infercrane.guard import load_policy
from pulumi_infercrane.guard.errors import PolicyError
from tests.fuzz.forbidden import Watch
from tests.fuzz.target import Target
from tests.guard.conftest import POLICY

FULL = b"""\
schema: infercrane.policy/v1
service: chat
required_kinds: {default: [benchmark, quality], dev: [benchmark, by_change]}
by_change: {model: [quality]}
alpha: 0.05
currency: USD
min_duration_s: 60
max_age: {benchmark: 24h, quality: 30d}
slo: {ttft_s: 0.5, tpot_s: 0.05}
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.ttft_p95, margin: 0.15, min_pass: 100, min_compute: 100, class: H}
  - {id: quality.basics, margin: 0.05}
  - {id: reliability.crashes}
  - {id: replay.new_error_fraction}
  - {id: cost.per_million_output_tokens}
waivers:
  - rule: benchmark.ttft_p95
    owner: ada
    reason: a new disk is on its way
    expires_at: 2026-12-30T00:00:00Z
    revision_digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
trust:
  require_signatures: true
  keys:
    - id: sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9
      public_key: 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
      kinds: [benchmark, override]
      not_before: 2026-11-01T00:00:00Z
      not_after: 2027-11-01T00:00:00Z
      revoked_at: 2027-02-01T00:00:00Z
      count_before_revocation: true
"""


def targets() -> Iterator[Target]:
    yield Target("policy", _run, (POLICY.encode(), FULL))


def _run(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        try:
            load_policy(data)
        except PolicyError as error:
            assert str(error).startswith("policy.yaml"), error
            return False
    return True
