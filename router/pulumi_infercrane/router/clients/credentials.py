"""Who sends a request, and whether that key may send it."""

from urllib.parse import parse_qsl

from pulumi_infercrane.router.clients.keys import PREFIX, PRIORITIES, Key, Keyring
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.headers import REVISION, Headers
from pulumi_infercrane.router.protocol.request import Head

PRIORITY = b"x-infercrane-priority"
_IN_URL = frozenset({"accesstoken", "apikey", "authorization", "key", "token", "xapikey"})


def refuse_key_in_url(head: Head) -> None:
    """A key in a URL ends up in the logs of every proxy, and here it would reach the upstream.

    Raises:
        RequestRefused: 400; the value is not repeated.
    """
    query = head.target[len(head.path) + 1 :].decode("latin-1")
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower().replace("_", "").replace("-", "") in _IN_URL or value.startswith(PREFIX):
            raise RequestRefused(400, "key_in_url", "send the key in the Authorization header, not in the URL")


def authenticate(headers: Headers, keyring: Keyring, now: float) -> Key:
    """The key of a request. `now` is in seconds of the Unix epoch.

    Raises:
        RequestRefused: 401; no part of the key is repeated.
    """
    given = headers.first.get(b"authorization")
    if given is None:
        raise _unauthorized("missing_api_key", "an API key is needed: Authorization: Bearer <key>")
    scheme, _, secret = given.partition(b" ")
    if scheme.lower() != b"bearer" or headers.repeated(b"authorization"):
        raise _unauthorized("invalid_api_key", "the API key must come as one header: Authorization: Bearer <key>")
    found = keyring.find(secret.strip())
    if found is None:
        raise _unauthorized("invalid_api_key", "the API key is not known here")
    if found.until <= now:
        raise _unauthorized("expired_api_key", f"the API key {found.key.name} has expired")
    return found.key


def refuse_scope(key: Key, service: str, headers: Headers) -> None:
    """A key speaks for its services only, and pins a revision only if it may.

    Raises:
        RequestRefused: 403.
    """
    if not key.serves(service):
        raise RequestRefused(
            403, "service_not_allowed", f"the API key {key.name} is not for this model", service=service
        )
    if REVISION in headers.first and not key.grant.pin:
        raise RequestRefused(
            403, "pin_not_allowed", f"the API key {key.name} may not ask for a revision", service=service
        )


def priority(key: Key | None, service: str, headers: Headers) -> int:
    """The class of a request, 0 the most urgent. Where no keys are needed everybody may ask for any.

    Raises:
        RequestRefused: 400 for no class, 403 for one the key may not ask for.
    """
    given = headers.first.get(PRIORITY)
    allowed = PRIORITIES if key is None else key.grant.priorities
    if given is None:
        return PRIORITIES.index("normal" if key is None else allowed[0])
    name = given.decode("latin-1").strip().lower()
    if name not in PRIORITIES:
        raise RequestRefused(
            400, "unknown_priority", f"the priority is one of {', '.join(PRIORITIES)}", service=service
        )
    if name not in allowed:
        raise RequestRefused(
            403, "priority_not_allowed", f"the API key may not ask for priority {name}", service=service
        )
    return PRIORITIES.index(name)


def _unauthorized(code: str, message: str) -> RequestRefused:
    return RequestRefused(401, code, message)
