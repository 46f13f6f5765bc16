"""Errors of the guard. Each carries a stable `code`; the message names the file, the field or line, and the way out.

GuardError
├── CanonicalError
├── EvidenceError
├── Inadmissible
├── LedgerError
├── OverrideError
├── PolicyError
└── TrustError
"""


class GuardError(Exception):
    """Root of everything the guard raises on purpose: no verdict was reached."""

    code = "guard_error"


class CanonicalError(GuardError, ValueError):
    """A value has no RFC 8785 form: a non-finite number, an integer beyond ±(2^53-1), a key that is no string."""

    code = "canonical_form"


class EvidenceError(GuardError):
    """The evidence folder cannot be read. Bad *content* is never an error: it is a reason in the decision."""

    code = "evidence_unreadable"


class LedgerError(GuardError):
    """The ledger is broken or cannot be written."""

    code = "ledger_broken"


class OverrideError(GuardError):
    """An override is not one, is for something else, expired, used, or not signed by somebody who may."""

    code = "override_refused"


class PolicyError(GuardError):
    """The policy cannot be used: a syntax error, an unknown key, a kind without a rule."""

    code = "policy_invalid"


class TrustError(GuardError):
    """A key file cannot be made or used, or a file cannot be signed."""

    code = "trust_unusable"
