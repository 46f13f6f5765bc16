"""Documents of the route table: JSON values in, immutable tables out, every broken rule named."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from pulumi_infercrane.router.addresses import why_refused
from pulumi_infercrane.router.balance import known_policies
from pulumi_infercrane.router.errors import TableInvalid
from pulumi_infercrane.router.protocol.paths import PROTOCOLS
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.reading import MAX_ITEMS, Reader, Shape, at, persisted
from pulumi_infercrane.router.tables.table import (
    DRAINING,
    ROUND_ROBIN,
    SCHEMA,
    SERVING,
    WHOLE,
    Declared,
    Health,
    Mirror,
    Revision,
    RouteTable,
    ServiceLimits,
    Timers,
    Upstream,
)

SERVICE = Shape(
    r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?",
    "a name of up to 63 lower-case letters, digits, '-' and '_', with a letter or digit at both ends",
)
DIGEST = Shape(r"sha256:[0-9a-f]{64}", "sha256: and 64 hex digits in lower case")
TOKEN = Shape(
    r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}", "up to 128 letters, digits, '.', '_', '/' and '-', a letter or digit first"
)
NAME = Shape(
    r"[\x21-\x7e]([\x20-\x7e]{0,198}[\x21-\x7e])?",
    "a text of up to 200 printable ASCII characters, no blank at its ends",
)
KEY_REFERENCE = Shape(r"env:[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable that holds the key: env:NAME")
MOMENT = Shape(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "a UTC time like 2026-11-30T05:00:00Z")
GENERATION = Shape(r"[1-9][0-9]{0,15}", "a whole number from 1, as text")
HEADER = Shape(r"[a-z0-9][a-z0-9-]{0,63}", "a header's name in lower case, of up to 64 letters, digits and '-'")
STACK = Shape(
    r"[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}){0,2}",
    "the name of a stack: up to three parts of up to 100 letters, digits, '_', '.' and '-' with '/' between",
)

SETTINGS = ("pins", "pinning", "session_header", "fallback", "mirror", "timers", "limits", "stack")
"""What a table may say beside its revisions."""
SETTINGS_OF_REVISION = ("balance", "health")
"""What each of its revisions may say beside where it answers."""

_DECLARED = ("aliases", "protocols", "revisions")
_LIVE = ("schema", "service", "generation", "decision_id", "active", "digest")
_LIVE_OPTIONAL = ("weights", "weights_decision_id")
_GUARDS = ("expires_at", "expected_generation", "expected_weights")
_MAX_COPIED = 64 * 1024 * 1024
MAX_COUNT = 1_000_000_000


def read_declared(document: object) -> Declared:
    """The body of a PUT.

    Raises:
        TableInvalid: with every finding.
    """
    reader = _TableReader()
    declared = reader.declared(reader.mapping(document, "table", _DECLARED, SETTINGS))
    reader.raise_findings()
    return declared


def read_settings(document: Mapping[str, Any], revisions: Collection[str]) -> dict[str, Any]:
    """What of `SETTINGS` and `SETTINGS_OF_REVISION` is in `document`, as a table says it, every default written out.

    `revisions` are the digests there are.

    Raises:
        TableInvalid: with every finding.
    """
    reader = _TableReader()
    entry = reader.mapping(document, "", (), (*SETTINGS, *SETTINGS_OF_REVISION))
    settings = reader.settings(entry, revisions) | reader.settings_of_revision(entry, "")
    reader.raise_findings()
    return {name: _plain(settings[name]) for name in entry}


def _plain(value: Any) -> Any:
    """A setting as a JSON value."""
    if isinstance(value, tuple):
        return list(value)
    return value.document() if hasattr(value, "document") else value


def read_table(document: object) -> RouteTable:
    """A persisted table; its digest and schema are checked, not trusted.

    An upstream URL that an earlier version took and this one refuses makes no other table of it: the upstream is not
    dialled (`Upstream.refused`), and the next PUT has to say another one.

    Raises:
        StateDamaged: another schema, or a digest that does not match.
        TableInvalid: with every finding.
    """
    document = persisted(document, SCHEMA)
    reader = _TableReader(persisted=True)
    optional = (*SETTINGS, *_LIVE_OPTIONAL)
    table = reader.table(reader.mapping(document, "table", (*_DECLARED, *_LIVE), optional))
    reader.raise_findings()
    return table


def read_flip(document: object) -> Flip:
    """The body of a flip.

    Raises:
        TableInvalid: with every finding.
    """
    reader = _TableReader()
    entry = reader.mapping(document, "flip", ("expected_active", "to", "decision_id"), _GUARDS)
    flip = Flip(to=reader.text(entry, "flip", "to", DIGEST), **reader.expectations(entry, "flip"))
    reader.raise_findings()
    return flip


def read_weights(document: object) -> Weights:
    """The body of a change of weights.

    Raises:
        TableInvalid: with every finding.
    """
    reader = _TableReader()
    entry = reader.mapping(document, "call", ("expected_active", "weights", "decision_id"), _GUARDS)
    weights = Weights(weights=reader.weights(entry.get("weights"), "weights"), **reader.expectations(entry, "call"))
    reader.raise_findings()
    return weights


def read_drain(document: object) -> tuple[str, float]:
    """The body of a drain: revision and seconds.

    Raises:
        TableInvalid: with every finding.
    """
    reader = _TableReader()
    entry = reader.mapping(document, "drain", ("revision", "deadline_s"), ())
    revision = reader.text(entry, "drain", "revision", DIGEST)
    deadline_s = reader.seconds(entry.get("deadline_s"), "drain.deadline_s", least=0)
    reader.raise_findings()
    return revision, deadline_s


def read_service_name(name: str) -> str:
    """A name that is safe as a file name and a metric label.

    Raises:
        TableInvalid: naming the rule.
    """
    if not SERVICE.fits(name):
        raise TableInvalid([f"service: {name!r} is not {SERVICE.words}"])
    return name


class _TableReader(Reader):
    def __init__(self, *, persisted: bool = False) -> None:
        super().__init__()
        self._persisted = persisted

    def table(self, document: Mapping[str, Any]) -> RouteTable:
        declared = self.declared(document)
        active = document.get("active")
        if active != "" and active not in declared.revisions:
            self.find("active", f"{active!r} is not among the revisions")
        weights = self.weights(document.get("weights", {}), "weights")
        if weights and not (active in weights and weights.keys() <= declared.revisions.keys() and len(weights) == 2):
            self.find("weights", "must be of the active revision and one other")
        return RouteTable(
            service=self.text(document, "table", "service", SERVICE),
            generation=int(self.text(document, "table", "generation", GENERATION) or 0),
            declared=declared,
            active=str(active),
            decision_id=self.text(document, "table", "decision_id", NAME, empty=True),
            weights=weights,
            weights_decision_id=self.text(document, "table", "weights_decision_id", NAME, empty=True),
        )

    def expectations(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What a flip and a change of weights have in common."""
        expected = entry.get("expected_weights")
        return {
            "expected_active": self.text(entry, where, "expected_active", DIGEST, empty=True),
            "decision_id": self.text(entry, where, "decision_id", NAME),
            "expires_at": self.text(entry, where, "expires_at", MOMENT, empty=True),
            "expected_generation": self.text(entry, where, "expected_generation", GENERATION, empty=True),
            "expected_weights": None if expected is None else self.weights(expected, f"{where}.expected_weights"),
        }

    def weights(self, value: object, where: str) -> dict[str, int]:
        """Percent by revision; an empty object is allowed."""
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            self.find(where, "must be an object from digest to percent")
            return {}
        for digest in value:
            self.one_text(digest, where, DIGEST)
        weights = {digest: self.whole(weight, f"{where}.{digest}", 0, WHOLE) for digest, weight in value.items()}
        if weights and sum(weights.values()) != WHOLE:
            self.find(where, f"must add up to {WHOLE}, not {sum(weights.values())}")
        return weights

    def declared(self, document: Mapping[str, Any]) -> Declared:
        revisions = self.revisions(document.get("revisions"))
        protocols = self.texts(document.get("protocols"), "protocols", NAME)
        for protocol in protocols:
            if protocol not in PROTOCOLS:
                self.find("protocols", f"unknown {protocol!r}; known are {', '.join(sorted(PROTOCOLS))}")
        return Declared(
            aliases=self.texts(document.get("aliases"), "aliases", NAME, at_least=1),
            protocols=protocols,
            revisions=revisions,
            **self.settings(document, revisions),
        )

    def settings(self, document: Mapping[str, Any], revisions: Collection[str]) -> dict[str, Any]:
        """The fields of `Declared` that a table may leave out."""
        pins = self.texts(document.get("pins", []), "pins", DIGEST)
        for pin in pins:
            if pin not in revisions:
                self.find("pins", f"{pin} is not among the revisions")
        return {
            "pins": pins,
            "timers": self.timers(document.get("timers", {})),
            "limits": self.limits(document["limits"]) if "limits" in document else None,
            "pinning": self.flag(document.get("pinning", False), "pinning"),
            "session_header": self.text(document, "", "session_header", HEADER, empty=True),
            "fallback": self.one_of(document, "", "fallback", revisions, empty=True),
            "mirror": self.mirror(document["mirror"], revisions) if "mirror" in document else None,
            "stack": self.text(document, "", "stack", STACK, empty=True),
        }

    def mirror(self, value: object, revisions: Collection[str]) -> Mirror:
        entry = self.mapping(value, "mirror", ("revision", "percent"), ("max_inflight", "max_bytes"))
        return Mirror(
            revision=self.one_of(entry, "mirror", "revision", revisions),
            percent=self.whole(entry.get("percent"), "mirror.percent", 1, WHOLE),
            max_inflight=self.whole(entry.get("max_inflight", Mirror.max_inflight), "mirror.max_inflight", 1, 1024),
            max_bytes=self.whole(entry.get("max_bytes", Mirror.max_bytes), "mirror.max_bytes", 1, _MAX_COPIED),
        )

    def revisions(self, value: object) -> dict[str, Revision]:
        if not isinstance(value, dict):
            self.find("revisions", "must be an object from digest to revision")
            return {}
        for digest in value:
            if not DIGEST.fits(digest):
                self.find("revisions", f"{digest!r} is not {DIGEST.words}")
        revisions = {digest: self.revision(entry, f"revisions.{digest}") for digest, entry in value.items()}
        self.distinct([revision.label for revision in revisions.values()], "revisions: labels")
        return revisions

    def revision(self, value: object, where: str) -> Revision:
        optional = ("state", "drain_deadline", "answer_as_alias", *SETTINGS_OF_REVISION)
        entry = self.mapping(value, where, ("label", "upstream_model", "dialect", "upstreams"), optional)
        state = entry.get("state", SERVING)
        if state not in (SERVING, DRAINING):
            self.find(f"{where}.state", f"must be {SERVING} or {DRAINING}")
        upstreams = self.items(entry.get("upstreams"), f"{where}.upstreams", self.upstream, at_least=1)
        self.distinct([upstream.id for upstream in upstreams], f"{where}.upstreams: ids")
        if upstreams and all(upstream.state == DRAINING for upstream in upstreams):
            self.find(f"{where}.upstreams", f"one must be {SERVING}: drain the revision instead")
        return Revision(
            label=self.text(entry, where, "label", TOKEN),
            upstream_model=self.text(entry, where, "upstream_model", NAME),
            dialect=self.text(entry, where, "dialect", TOKEN),
            upstreams=upstreams,
            state=str(state),
            drain_deadline=self.text(entry, where, "drain_deadline", MOMENT, empty=True),
            answer_as_alias=self.flag(entry.get("answer_as_alias", False), f"{where}.answer_as_alias"),
            **self.settings_of_revision(entry, where),
        )

    def settings_of_revision(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The fields of `Revision` that say how its replicas are treated."""
        return {
            "balance": self.balance(entry.get("balance", ROUND_ROBIN), at(where, "balance")),
            "health": self.health(entry["health"], at(where, "health")) if "health" in entry else None,
        }

    def balance(self, value: object, where: str) -> str:
        if value not in known_policies():
            self.find(where, f"must be one of {', '.join(known_policies())}")
        return str(value)

    def health(self, value: object, where: str) -> Health:
        known = tuple(setting.name for setting in fields(Health))
        entry = self.mapping(value, where, (), known)
        found: dict[str, Any] = {}
        for name in (name for name in known if name in entry):
            if name.endswith("_s"):
                least = 0 if name in ("probe_s", "slow_start_s") else 0.001
                found[name] = self.seconds(entry[name], f"{where}.{name}", least)
            else:
                found[name] = self.whole(entry[name], f"{where}.{name}", 1, 1000)
        return Health(**found)

    def upstream(self, value: object, where: str) -> Upstream:
        entry = self.mapping(value, where, ("id", "url"), ("key_ref", "state"))
        state = entry.get("state", SERVING)
        if state not in (SERVING, DRAINING):
            self.find(f"{where}.state", f"must be {SERVING} or {DRAINING}")
        name, url = self.text(entry, where, "id", TOKEN), self.text(entry, where, "url", NAME)
        key_ref = self.text(entry, where, "key_ref", KEY_REFERENCE, empty=True)
        refused = why_refused(url, with_key=bool(key_ref))
        if refused and not self._persisted:
            self.find(f"{where}.url", refused)
        return Upstream(name, url, key_ref, str(state), refused)

    def timers(self, value: object) -> Timers:
        known = tuple(timer.name for timer in fields(Timers))
        entry = self.mapping(value, "timers", (), known)
        return Timers(**{n: self.seconds(entry[n], f"timers.{n}", least=0.001) for n in known if n in entry})

    def limits(self, value: object) -> ServiceLimits:
        entry = self.mapping(value, "limits", (), tuple(limit.name for limit in fields(ServiceLimits)))
        counts = ("max_inflight", "max_inflight_per_revision", "max_queue", "max_queue_bytes")
        found: dict[str, Any] = {
            name: self.whole(entry[name], f"limits.{name}", 0 if name.startswith("max_queue") else 1, MAX_COUNT)
            for name in counts
            if name in entry
        }
        if not {"max_inflight", "max_inflight_per_revision"} & entry.keys():
            self.find("limits", "needs max_inflight or max_inflight_per_revision")
        if "queue_timeout_s" in entry:
            found["queue_timeout_s"] = self.seconds(entry["queue_timeout_s"], "limits.queue_timeout_s", least=0.001)
        return ServiceLimits(**found)

    def one_of(
        self,
        entry: Mapping[str, Any],
        where: str,
        name: str,
        revisions: Collection[str],
        *,
        empty: bool = False,
    ) -> str:
        digest = self.text(entry, where, name, DIGEST, empty=empty)
        if digest and digest not in revisions:
            self.find(at(where, name), f"{digest} is not among the revisions")
        return digest
