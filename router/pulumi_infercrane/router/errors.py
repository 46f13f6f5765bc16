"""Errors of the router.

RouterError
├── TableInvalid           a table or request of the control protocol breaks a rule; carries every finding
├── GenerationMismatch     somebody else changed the table in between
├── ActiveChanged          the active revision is not the one the caller saw
├── WeightsChanged         the route does not carry the weights the caller saw
├── DecisionConflict       this decision id is live with another target
├── DecisionExpired        the decision's evidence is too old by now
├── RevisionUnknown        the table does not declare this revision
├── WindowUnknown          there is no closed traffic window of this name
├── RevisionInUse          the revision is active or has requests in flight
├── ServiceUnknown         the router has no table of this service
├── ServiceInUse           the service has requests in flight
├── StateLocked            another router uses this state directory
├── StateDamaged           a persisted table cannot be trusted
├── StateNotWritten        the disk refused the new table
├── KeysInvalid            keys, or a request to change them, break a rule; carries every finding
├── KeyExists              a usable key has this name
├── KeyUnknown             there is no usable key of this name
├── AddressRefused         the address may not be listened on
├── AddressTaken           another process listens there
├── AccessLogRefused       the access log cannot be written
├── CertificateRefused     the files of the certificate cannot be used
├── WorkerFailed           a worker process does not start
├── RecordingRefused       the recording policy, or its folder, cannot be used
├── ExportRefused          a table cannot be said in the words of this proxy, or the folder is not to be written
├── ExportNotLive          the proxy does not serve the table that was written for it
├── RequestRefused         a client's request is answered by the router itself
├── AnswerInvalid          an upstream broke HTTP; nothing more of its connection can be trusted
├── RouterUnreachable      no answer on the control socket
└── UnexpectedAnswer       an answer outside the control protocol
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi_infercrane.router.protocol.request import Head
    from pulumi_infercrane.router.telemetry.requests import Asked


class RouterError(Exception):
    """Root of every error raised by `pulumi_infercrane.router`.

    `code` is stable and machine-readable; `status` is the HTTP status that carries it in the control protocol.
    """

    code = "router_error"
    status = 500


class TableInvalid(RouterError):
    """Nothing was applied; `findings` names every field that breaks a rule, in document order."""

    code = "table_invalid"
    status = 422

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__("; ".join(findings))
        self.findings = tuple(findings)


class GenerationMismatch(RouterError):
    """The precondition names another generation than the live one: read the table again, then decide again."""

    code = "generation_mismatch"
    status = 412


class ActiveChanged(RouterError):
    """The live active revision differs from the expected one; nothing was moved."""

    code = "active_changed"
    status = 409


class WeightsChanged(RouterError):
    """The route carries other weights than the expected ones; nothing was moved."""

    code = "weights_changed"
    status = 409


class DecisionConflict(RouterError):
    """One decision id was sent with two different targets."""

    code = "decision_conflict"
    status = 409


class DecisionExpired(RouterError):
    """The flip arrived after `expires_at`."""

    code = "expired"
    status = 410


class RevisionUnknown(RouterError):
    """The revision is not in the table of the service."""

    code = "unknown_revision"
    status = 422


class WindowUnknown(RouterError):
    """The service has no closed traffic window of this name: it was taken away, or forgotten for newer ones."""

    code = "unknown_window"
    status = 404


class RevisionInUse(RouterError):
    """The active revision, or one with requests in flight, can neither be removed nor drained away."""

    code = "revision_in_use"
    status = 409


class ServiceUnknown(RouterError):
    """The router has no table of this service."""

    code = "service_unknown"
    status = 404


class ServiceInUse(RouterError):
    """The service still has requests in flight."""

    code = "service_in_use"
    status = 409


class StateLocked(RouterError):
    """Another router holds the lock of this state directory."""

    code = "state_locked"


class StateDamaged(RouterError):
    """A persisted table is cut, altered, or of a schema this version does not know."""

    code = "state_damaged"


class StateNotWritten(RouterError):
    """The disk refused: a new table is not gone by, the old one serves on; a window is not closed."""

    code = "state_not_written"
    status = 507


class KeysInvalid(TableInvalid):
    """As TableInvalid, about client keys."""

    code = "keys_invalid"


class KeyExists(RouterError):
    """The name belongs to a key that is not revoked."""

    code = "key_exists"
    status = 409


class KeyUnknown(RouterError):
    """No key of this name, or a revoked one."""

    code = "key_unknown"
    status = 404


class AddressRefused(RouterError):
    """The listen address or control path is not acceptable."""

    code = "address_refused"


class AddressTaken(RouterError):
    """Another process listens on the address or control socket."""

    code = "address_taken"


class AccessLogRefused(RouterError):
    """The router does not start without the access log it was asked for."""

    code = "access_log_refused"


class CertificateRefused(RouterError):
    """The certificate or its key cannot be read, or they do not belong together."""

    code = "certificate_refused"


class WorkerFailed(RouterError):
    """A worker process ended before it served; its own message says why."""

    code = "worker_failed"


class RecordingRefused(RouterError):
    """The recording policy breaks a rule, or its folder cannot be written."""

    code = "recording_refused"


class ExportRefused(RouterError):
    """Nothing was written: the table asks for what this proxy cannot do, or the folder holds something else."""

    code = "export_refused"


class ExportNotLive(RouterError):
    """The files are written, but the running proxy does not serve by them: look at its log."""

    code = "export_not_live"


class RequestRefused(RouterError):
    """A request that never reaches an upstream; `close` when the rest of the connection cannot be trusted.

    `service` and `reason` (the code, where nothing finer is known) are what it is counted under.
    """

    code = "bad_request"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        close: bool = False,
        retry_after_s: int | None = None,
        service: str = "",
        reason: str = "",
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.close = close
        self.retry_after_s = retry_after_s
        self.service = service
        self.reason = reason or code
        self.allow = allow
        """The methods that are taken, of a 405."""
        self.head: Head | None = None
        """Of a request that was refused before its body was read."""
        self.asked: Asked | None = None
        """For the access log; None when nobody wants to know."""


class AnswerInvalid(RouterError):
    """An upstream's answer is not HTTP/1.x, or framed in a way that is not passed on, or more than one answer."""

    code = "upstream_protocol"
    status = 502


class RouterUnreachable(RouterError):
    """No answer came. `sent` tells whether the call may have reached the router and taken effect."""

    code = "router_unreachable"

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class UnexpectedAnswer(RouterError):
    """What answers on the control socket does not speak this control protocol."""

    code = "unexpected_answer"
