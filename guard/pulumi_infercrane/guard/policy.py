"""The policy (`infercrane.policy/v1`): which kinds of evidence a stack requires and which rules they must pass.

Typed YAML. An unknown or repeated key is an error that names the line and the nearest valid key; nothing is ignored.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pulumi_infercrane.guard.admission.change import EVERYTHING, NEEDS, kinds_needed
from pulumi_infercrane.guard.canonical import digest_bytes
from pulumi_infercrane.guard.errors import PolicyError
from pulumi_infercrane.guard.judging.rule import Rule, RuleForm, Settings
from pulumi_infercrane.guard.policy_yaml import Node, read_yaml
from pulumi_infercrane.guard.printable import nearest
from pulumi_infercrane.guard.rollout.plan import Canary, PostPromotion, read_canary, read_post_promotion
from pulumi_infercrane.guard.rules import find_kind, known_kinds
from pulumi_infercrane.guard.times import parse_duration, parse_time
from pulumi_infercrane.guard.trust.store import Trust, read_trust

SCHEMA = "infercrane.policy/v1"
DEFAULT_ALPHA = 0.05
DEFAULT_MIN_DURATION_S = 60.0
DEFAULT_MIN_SOAK_S = 1800.0
BY_CHANGE = "by_change"
"""Among required kinds: those that the change between the two revisions needs."""
PRODUCTION = ("prod", "production")
"""Names of stacks in which evidence ages faster."""

_KEYS = (
    "schema",
    "service",
    "alpha",
    "max_looks",
    "bootstrap",
    "min_duration_s",
    "min_soak_s",
    "currency",
    "required_kinds",
    "by_change",
    "slo",
    "rules",
    "max_age",
    "waivers",
    "trust",
    "canary",
    "post_promotion",
)
_RULE_KEYS = ("id", "class", "limit", "margin", "min_pass", "min_compute")
_SLO_KEYS = ("ttft_s", "tpot_s", "e2e_s")
_WAIVER_KEYS = ("rule", "reason", "owner", "expires_at", "revision_digest")


_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True)
class Waiver:
    """A reviewed exception: one soft rule, or one required kind, for one revision, until `expires_at`."""

    rule: str
    """A rule id, or the name of a kind that need not be there."""
    reason: str
    owner: str
    expires_at: str
    revision_digest: str


@dataclass(frozen=True)
class Policy:
    """A policy with its defaults filled in. `digest` is over the bytes of the file."""

    digest: str
    source: str
    service: str
    rules: tuple[Rule, ...]
    required: Mapping[str, tuple[str, ...]]
    """Required kinds by stack name, `by_change` among them; `default` for every other stack."""
    max_age: Mapping[str, timedelta]
    """By kind, where the policy says another age than the kind does."""
    settings: Settings
    by_change: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kinds that a class of change needs beside those of `change.NEEDS`."""
    bootstrap: bool = False
    """Whether a first revision may serve, with nothing to compare it with."""
    bootstrap_kinds: tuple[str, ...] = ()
    """Kinds of which even that one needs evidence, sorted."""
    waivers: tuple[Waiver, ...] = ()
    trust: Trust | None = None
    canary: Canary | None = None
    """None: a candidate takes over at once."""
    post_promotion: PostPromotion = field(default_factory=PostPromotion)
    notes: tuple[str, ...] = field(default=())

    def required_kinds(self, stack: str, classes: Collection[str] = ()) -> tuple[str, ...]:
        """Kinds required in a stack, named in full or by its last part, sorted.

        `classes` are those of the change; without any it is not known what changed, and `by_change` means every kind.

        Raises:
            PolicyError: when the policy says nothing about this stack.
        """
        name = stack_name(stack)
        kinds = self.required.get(name) or self.required.get("default")
        if kinds is None:
            raise PolicyError(
                f"{self.source}: required_kinds says nothing about stack {name!r}: add it, or 'default', "
                f"or say which stack this is (--stack)"
            )
        if BY_CHANGE not in kinds:
            return kinds
        added = {kind for name in classes for kind in self.by_change.get(name, ())}
        return tuple(sorted((set(kinds) | set(kinds_needed(classes)) | added) - {BY_CHANGE}))

    def oldest(self, kind: str, stack: str) -> timedelta:
        """How old evidence of a kind may be in a stack."""
        if kind in self.max_age:
            return self.max_age[kind]
        found = find_kind(kind)
        in_production = stack_name(stack) in PRODUCTION
        return (found.max_age_in_production if in_production else None) or found.max_age


def stack_name(stack: str) -> str:
    """The last part of a stack that is named in full."""
    return stack.rsplit("/", 1)[-1]


def same_stack(one: str, other: str) -> bool:
    """Whether two names are of one stack, as far as both are written out: `prod` may be `shop/prod`."""
    parts = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return all(mine == theirs for mine, theirs in parts)


def load_policy(text: str | bytes, source: str = "policy.yaml") -> Policy:
    """Read a policy. `source` is the name errors carry.

    Raises:
        PolicyError: `policy.yaml:12: unknown key 'margn', did you mean 'margin'?`
    """
    data = text.encode() if isinstance(text, str) else text
    root = read_yaml(data, source)
    fields = root.mapping(_KEYS)
    if "schema" not in fields or fields["schema"].text() != SCHEMA:
        raise root.error(f"the first key must be 'schema: {SCHEMA}'")
    rules = _rules(root, fields)
    with_rules = {rule.kind for rule in rules}
    digest = digest_bytes(data)
    min_duration = fields["min_duration_s"].number(0, 86400) if "min_duration_s" in fields else DEFAULT_MIN_DURATION_S
    alpha = fields["alpha"].number(0.0001, 0.2) if "alpha" in fields else DEFAULT_ALPHA
    min_soak = fields["min_soak_s"].number(0, 30 * 86400) if "min_soak_s" in fields else DEFAULT_MIN_SOAK_S
    return Policy(
        digest=digest,
        source=source,
        service=fields["service"].text() if "service" in fields else "",
        rules=rules,
        required=_required(root, fields, with_rules),
        by_change=_by_change(fields, with_rules),
        max_age=_max_age(fields),
        settings=Settings(
            alpha=alpha / (fields["max_looks"].integer(1, 100) if "max_looks" in fields else 1),
            min_duration_s=min_duration,
            min_soak_s=min_soak,
            currency=fields["currency"].parsed(_currency) if "currency" in fields else "",
            slo=_slo(fields),
            bounds={rule.id: rule.bound for rule in rules},
        ),
        bootstrap=_allows_bootstrap(fields),
        bootstrap_kinds=_bootstrap_kinds(fields, rules),
        waivers=_waivers(fields, {rule.id for rule in rules} | set(known_kinds())),
        trust=read_trust(fields["trust"]) if "trust" in fields else None,
        canary=read_canary(fields["canary"]) if "canary" in fields else None,
        post_promotion=_post_promotion(fields),
        notes=_lowered("min_duration_s", min_duration, DEFAULT_MIN_DURATION_S)
        + _lowered("min_soak_s", min_soak, DEFAULT_MIN_SOAK_S)
        + ((f"raised_alpha: alpha {alpha:g} instead of {DEFAULT_ALPHA:g}",) if alpha > DEFAULT_ALPHA else ()),
    )


def _post_promotion(fields: Mapping[str, Node]) -> PostPromotion:
    return read_post_promotion(fields["post_promotion"]) if "post_promotion" in fields else PostPromotion()


def _currency(text: str) -> str:
    if not _CURRENCY.fullmatch(text):
        raise ValueError(f"{text!r} is not a currency code like USD")
    return text


def _rules(root: Node, fields: Mapping[str, Node]) -> tuple[Rule, ...]:
    if "rules" not in fields:
        raise root.error("there are no rules: without a rule nothing can be promoted")
    rules: list[Rule] = []
    for node in fields["rules"].items():
        rule = _rule(node)
        if rule.id in {other.id for other in rules}:
            raise node.error(f"rule {rule.id!r} is written twice")
        if rule.id == "benchmark.attainment" and "slo" not in fields:
            raise node.error(f"rule {rule.id!r} needs 'slo' with at least one of {', '.join(_SLO_KEYS)}")
        rules.append(rule)
    return tuple(rules)


def _rule(node: Node) -> Rule:
    fields = node.mapping(_RULE_KEYS, required=("id",))
    identifier = fields["id"].text()
    kind = _known(fields["id"], identifier.partition(".")[0], f"rule {identifier!r}")
    form = find_kind(kind).form(identifier)
    if form is None:
        known = nearest(identifier, tuple(find_kind(kind).forms))
        raise fields["id"].error(f"no rule {identifier!r}; {known}")
    min_pass = fields["min_pass"].integer(1, 10**7) if "min_pass" in fields else form.min_pass
    min_compute = fields["min_compute"].integer(1, 10**7) if "min_compute" in fields else form.min_compute
    return Rule(
        id=identifier,
        kind=kind,
        hard=fields["class"].choice("H", "S") == "H" if "class" in fields else form.hard,
        relative=form.bound == "margin",
        bound=_bound(identifier, fields, form),
        min_pass=min_pass,
        min_compute=min_compute,
        notes=_lowered("min_pass", min_pass, form.min_pass) + _lowered("min_compute", min_compute, form.min_compute),
        line=node.line,
    )


def _bound(identifier: str, fields: Mapping[str, Node], form: RuleForm) -> float:
    wrong = "margin" if form.bound == "limit" else "limit"
    if wrong in fields:
        raise fields[wrong].error(f"rule {identifier!r} takes {form.bound!r}, not {wrong!r}")
    if form.bound in fields:
        return _not_percent(fields[form.bound], form)
    if form.default is None:
        raise fields["id"].error(f"rule {identifier!r} needs {form.bound!r}: there is no default for it")
    return form.default


def _not_percent(node: Node, form: RuleForm) -> float:
    """A bound in its unit. `limit: 1`, meant as 1 %, would let every request fail."""
    bound = node.number(0, 1e9)
    if bound > form.most:
        raise node.error(f"{form.bound}: {bound:g} is too high for a {form.unit}, at most {form.most:g}: 1 % is 0.01")
    return bound


def _lowered(name: str, value: float, default: float) -> tuple[str, ...]:
    return (f"lowered_minimum: {name} {value:g} instead of {default:g}",) if value < default else ()


def _known(node: Node, kind: str, what: str) -> str:
    if kind not in known_kinds():
        raise node.error(f"{what}: {kind!r} is no kind of evidence, {nearest(kind, known_kinds())}")
    return kind


def _required(root: Node, fields: Mapping[str, Node], with_rules: set[str]) -> Mapping[str, tuple[str, ...]]:
    if "required_kinds" not in fields:
        raise root.error("required_kinds is missing: a policy that requires nothing would promote everything")
    node = fields["required_kinds"]
    by_stack = node.mapping() if node.is_mapping else {"default": node}
    if not by_stack:
        raise node.error("required_kinds is empty: a policy that requires nothing would promote everything")
    return {stack: _required_kinds(kinds, with_rules) for stack, kinds in by_stack.items()}


def _required_kinds(node: Node, with_rules: set[str]) -> tuple[str, ...]:
    """A list of kinds, among them `by_change` or not; or `by_change` alone."""
    items = tuple(node.items()) if node.is_list else (node,)
    if not node.is_list:
        node.choice(BY_CHANGE)
    if not items:
        raise node.error("required_kinds is empty: a policy that requires nothing would promote everything")
    for item in items:
        kinds = EVERYTHING if item.text() == BY_CHANGE else (_known(item, item.text(), "required_kinds"),)
        _judged(item, kinds, with_rules)
    return tuple(sorted({item.text() for item in items}))


def _judged(node: Node, kinds: Iterable[str], with_rules: set[str]) -> None:
    """Every kind that may be required needs a rule: no condition can never pass."""
    for kind in kinds:
        if kind not in with_rules:
            example = find_kind(kind).example
            raise node.error(
                f"{node.text()}: kind {kind!r} is required but no rule judges it: add one like {example!r}"
            )


def _allows_bootstrap(fields: Mapping[str, Node]) -> bool:
    """`true`, or a mapping that says what is needed."""
    return "bootstrap" in fields and (fields["bootstrap"].is_mapping or fields["bootstrap"].boolean())


def _bootstrap_kinds(fields: Mapping[str, Node], rules: Iterable[Rule]) -> tuple[str, ...]:
    if "bootstrap" not in fields or not fields["bootstrap"].is_mapping:
        return ()
    items = tuple(fields["bootstrap"].mapping(("required_kinds",), ("required_kinds",))["required_kinds"].items())
    with_limit = {rule.kind for rule in rules if not rule.relative}
    for item in items:
        if _known(item, item.text(), "bootstrap") not in with_limit:
            raise item.error(f"bootstrap: no rule with a limit judges {item.text()!r}, and there is nothing to compare")
    return tuple(sorted({item.text() for item in items}))


def _by_change(fields: Mapping[str, Node], with_rules: set[str]) -> Mapping[str, tuple[str, ...]]:
    added = fields["by_change"].mapping(tuple(NEEDS)) if "by_change" in fields else {}
    return {name: _added(node, with_rules) for name, node in added.items()}


def _added(node: Node, with_rules: set[str]) -> tuple[str, ...]:
    items = tuple(node.items())
    for item in items:
        _judged(item, (_known(item, item.text(), "by_change"),), with_rules)
    return tuple(item.text() for item in items)


def _max_age(fields: Mapping[str, Node]) -> Mapping[str, timedelta]:
    given = fields["max_age"].mapping(known_kinds()) if "max_age" in fields else {}
    return {kind: node.parsed(parse_duration) for kind, node in given.items()}


def _slo(fields: Mapping[str, Node]) -> Mapping[str, float]:
    if "slo" not in fields:
        return {}
    slo = fields["slo"].mapping(_SLO_KEYS)
    if not slo:
        raise fields["slo"].error(f"slo is empty: give at least one of {', '.join(_SLO_KEYS)} in seconds")
    return {name: node.number(1e-6, 600) for name, node in slo.items()}


def _waivers(fields: Mapping[str, Node], rules: set[str]) -> tuple[Waiver, ...]:
    if "waivers" not in fields:
        return ()
    return tuple(_waiver(node, rules) for node in fields["waivers"].items())


def _waiver(node: Node, rules: set[str]) -> Waiver:
    fields = node.mapping(_WAIVER_KEYS, required=_WAIVER_KEYS)
    fields["expires_at"].parsed(parse_time)
    if fields["rule"].text() not in rules:
        raise fields["rule"].error(f"a waiver for {fields['rule'].text()!r}, which is not among the rules or kinds")
    return Waiver(**{name: value.text() for name, value in fields.items()})
