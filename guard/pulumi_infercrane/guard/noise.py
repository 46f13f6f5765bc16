"""The A/A run: what a policy says about two measurements of one revision, where every difference is noise.

The runs are judged against each other as they are, and again and again after their requests were dealt anew to two
sides. How often a rule then fails or stays unknown is what chance alone does to it. The dealing is derived from the
evidence: the same files give the same report.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.dealing import can_be_dealt, deal
from pulumi_infercrane.guard.errors import EvidenceError
from pulumi_infercrane.guard.evidence.folder import EvidenceSet, LoadedEvidence
from pulumi_infercrane.guard.evidence.request_times import shared
from pulumi_infercrane.guard.judging.rule import Finding, Member, Rule, Settings, Sides
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.rules import find_kind
from pulumi_infercrane.guard.statistics import Interval
from pulumi_infercrane.guard.verdict import Judged, Verdict, confirmed, verdict_of

DEALINGS = 100
NEEDED_SHARE = statistics.POWER
"""Of all comparisons that a margin or a number of requests must let pass."""

_STEP = 0.01
_Z = statistics.normal_quantile(0.05)
_WITH_POWER = 1 + statistics.normal_quantile(1 - NEEDED_SHARE) / _Z
"""Half-widths of an interval between truth and limit with which `NEEDED_SHARE` of the intervals end before it."""


@dataclass(frozen=True)
class RuleNoise:
    """What noise does to one rule. Shares are 0..1; None where nothing could be judged."""

    rule: Rule
    measured: tuple[Finding, ...]
    """The runs against each other as they are, each pair both ways round."""
    dealt: tuple[Finding, ...]
    """Empty when the evidence holds no single requests or answers."""

    @property
    def n(self) -> int:
        """Requests or pairs a side; 0 when nothing was judged."""
        return min((min(finding.n) for finding in chain(self.measured, self.dealt) if finding.n), default=0)

    def share(self, outcome: str) -> float | None:
        """How many of the dealings ended this way."""
        return sum(one.outcome == outcome for one in self.dealt) / len(self.dealt) if self.dealt else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """Between which estimates nine in ten dealings lie."""
        found = sorted(finding.estimate for finding in self.dealt if finding.estimate is not None)
        return (statistics.quantile(found, 0.05), statistics.quantile(found, 0.95)) if found else None

    @property
    def between_runs(self) -> bool:
        """Whether the runs differ by more than nine in ten dealings: noise that more requests do not average out."""
        estimates = [finding.estimate for finding in self.measured if finding.estimate is not None]
        return bool(self.spread and any(not self.spread[0] <= one <= self.spread[1] for one in estimates))

    @property
    def margin(self) -> float | None:
        """The smallest margin in hundredths that `NEEDED_SHARE` of the comparisons at this n pass; None for a limit."""
        if not self.rule.relative:
            return None
        needed = sorted(one.margin_needed for one in _formed(chain(self.measured, self.dealt)))
        reached = statistics.quantile(needed, NEEDED_SHARE) if needed else math.inf
        return round(math.ceil(round(reached / _STEP, 6)) * _STEP, 2) if math.isfinite(reached) else None

    @property
    def enough(self) -> int | None:
        """About how many requests or pairs a side let the rule pass `NEEDED_SHARE` of the time."""
        totals = sorted(one.enough(self.rule.relative) for one in _formed(self.dealt or self.measured))
        middle = statistics.quantile(totals, 0.5) if totals else math.inf
        return max(self.rule.min_pass, math.ceil(middle)) if math.isfinite(middle) else None


@dataclass(frozen=True)
class Noise:
    """What noise does to the rules of a policy, and to its verdict over all dealings."""

    rules: tuple[RuleNoise, ...]
    verdicts: Mapping[Verdict, int]


def noise_of(policy: Policy, evidence: EvidenceSet, revision: str, dealings: int = DEALINGS) -> Noise:
    """What noise does to a policy, from at least two runs of one revision. Kinds with fewer runs are left out.

    Raises:
        EvidenceError: when there are not two runs of any kind the policy judges.
    """
    runs = _runs(evidence.about(revision))
    rules = [rule for rule in policy.rules if len(runs.get(rule.kind, ())) > 1]
    if not rules:
        found = ", ".join(f"{len(members)} of {kind}" for kind, members in sorted(runs.items())) or "none"
        raise EvidenceError(f"two runs of revision {revision[:19]}… are needed, admissible are: {found}")
    dealt = {kind: tuple(_dealt(members, f"{evidence.digest} {kind}", dealings)) for kind, members in runs.items()}
    noises = tuple(_noise(rule, runs[rule.kind], dealt[rule.kind], policy.settings) for rule in rules)
    return Noise(noises, _verdicts(noises, policy.settings.alpha))


def _runs(evidence: EvidenceSet) -> Mapping[str, Sequence[Member]]:
    """By kind. A copy of a run is no other run: it would show no noise between them."""
    runs: dict[str, list[Member]] = {}
    kept: list[LoadedEvidence] = []
    for item in sorted(evidence.items, key=lambda item: item.evidence_id):
        if item.envelope and item.record is not None and not any(_is_copy(item, other) for other in kept):
            runs.setdefault(item.envelope.kind, []).append(Member(item.envelope, item.record))
            kept.append(item)
    return runs


def _is_copy(one: LoadedEvidence, other: LoadedEvidence) -> bool:
    if type(one.record) is not type(other.record):
        return False
    return not one.content.isdisjoint(other.content) or shared(one.times, other.times) > 0


def _dealt(runs: Sequence[Member], key: str, dealings: int) -> Iterator[Sides]:
    """Every pair of runs in turn, its requests or answers dealt anew."""
    pairs = [pair for pair in combinations(runs, 2) if all(can_be_dealt(run.record) for run in pair)]
    for number in range(dealings if pairs else 0):
        one, other = pairs[number % len(pairs)]
        first, second = deal(one.record, other.record, f"{key} {number}")
        yield Sides((replace(one, record=first),), (replace(other, record=second),))


def _noise(rule: Rule, runs: Sequence[Member], dealt: Sequence[Sides], settings: Settings) -> RuleNoise:
    judge = find_kind(rule.kind).judge
    measured = tuple(judge(rule, Sides((one,), (other,)), settings) for one, other in permutations(runs, 2))
    return RuleNoise(rule, measured, tuple(judge(rule, sides, settings) for sides in dealt))


def _verdicts(noises: Sequence[RuleNoise], alpha: float) -> Mapping[Verdict, int]:
    judged = [
        [Judged(noise.rule, finding, required=True) for finding in noise.dealt] for noise in noises if noise.dealt
    ]
    return Counter(verdict_of(confirmed(one, alpha)) for one in zip(*judged, strict=True))


# --- what would be enough ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Formed:
    """An interval that was formed, beside its limit."""

    interval: Interval
    limit: float
    n: int
    ratio: bool
    paired: bool

    @property
    def equal(self) -> float:
        """The estimate of two equal sides."""
        return 1.0 if self.ratio else 0.0

    @property
    def margin_needed(self) -> float:
        """The margin this comparison would just have passed with.

        However equal, pairs show no smaller one than their score test does without a single change.
        """
        above = self.limit >= self.equal
        by_interval = self.interval.hi - self.equal if above else self.equal - self.interval.lo
        return max(by_interval, _Z**2 / (self.n + _Z**2)) if self.paired else by_interval

    def enough(self, relative: bool) -> float:
        """The interval narrows with the root of n; half of it must fit between the truth and the limit.

        The truth is that both sides are equal; under an absolute limit, it is the estimate. As long as nothing happened
        at all, neither a failure nor a changed answer, the interval narrows with n itself; of a share, with its
        exact bound.
        """
        low, high = self.interval.lo, self.interval.hi
        if self.ratio:
            half, room = (math.log(high / low) / 2 if low > 0 else math.inf), math.log(self.limit)
        else:
            half, room = (high - low) / 2, self.limit - (0.0 if relative else self.interval.estimate)
        if not room or not math.isfinite(half) or (not relative and room < 0):
            return math.inf
        if self.interval.estimate == 0 and not relative and 0 < room < 1 and high < 1:
            return self.n * math.log1p(-high) / math.log1p(-room)
        if self.interval.estimate == 0:
            by_interval = self.n * (high / room if room > 0 else low / room)
            return max(by_interval, _Z**2 * (1 - abs(room)) / abs(room)) if self.paired else by_interval
        return self.n * (half * _WITH_POWER / room) ** 2


def _formed(findings: Iterable[Finding]) -> Iterator[_Formed]:
    for one in findings:
        if one.estimate is not None and one.lo is not None and one.hi is not None and one.limit is not None:
            ratio, paired = "ratio" in one.method, one.method == "agresti_min"
            yield _Formed(Interval(one.estimate, one.lo, one.hi), one.limit, min(one.n), ratio, paired)
