"""The exceptions of levelset, as one tree.

```
LevelsetError
├── ApiError                the server responded with a Status   (code, reason, message, details)
│   ├── BadRequest          400   the request is malformed
│   ├── Unauthorized        401   not authenticated
│   ├── Forbidden           403   not authorized; also a denied admission
│   ├── NotFound            404   also a LookupError
│   ├── Conflict            409   another writer was faster
│   │   ├── AlreadyExists
│   │   └── ApplyConflict         another manager owns the field   (conflicts)
│   ├── Expired             410   the resource version is too old: list again
│   ├── Invalid             422   the object is not valid          (causes by field)
│   ├── TooManyRequests     429   (retry_after)
│   └── ServerFailed        5xx
├── Unreachable             no response; also an OSError             (is_sent)
│   └── TimedOut            no response in time; also a TimeoutError
├── ConfigError             kubeconfig, credentials, options: correct them and start again
│   ├── KindClash           two classes define the same kind or resource
│   └── NotCached           a cached read of a kind that is not watched
├── UnknownKind             the server does not serve this kind (yet); also a LookupError
├── NotReady                a cache did not sync in time; also a TimeoutError   (cause)
├── Deadline                a wait did not end in time; also a TimeoutError
├── Malformed               input that cannot be parsed; also a ValueError   (field or position)
│   ├── BadObject           JSON, YAML or a tree that is not a valid object
│   ├── BadName             an invalid kind, group, version, resource or ref
│   ├── BadTime             not an RFC 3339 time
│   ├── BadQuantity         not a quantity
│   ├── BadSelector         an invalid label or field selector
│   ├── BadPointer          not a JSON pointer, or one that points nowhere
│   └── BadPatch            an invalid patch
├── PatchFailed             a valid patch that does not apply to the document   (path, index)
├── BadOwner                this owner must not own this object
├── KeyTaken                a key that belongs to the state of another object   (key, owner)
├── LeaseLost               this process is not the leader any more, and must stop
│   └── Fenced              a write that only the leader may send
├── Retry(seconds=)         raised by a reconciler: requeue after that time
├── GiveUp                  raised by a reconciler: do not retry until the spec changes
└── Denied(field=)          raised by an admission function
```
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ApplyConflict",
    "BadName",
    "BadObject",
    "BadOwner",
    "BadPatch",
    "BadPointer",
    "BadQuantity",
    "BadRequest",
    "BadSelector",
    "BadTime",
    "Cause",
    "ConfigError",
    "Conflict",
    "Deadline",
    "Denied",
    "Expired",
    "Fenced",
    "FieldConflict",
    "Forbidden",
    "GiveUp",
    "Invalid",
    "KeyTaken",
    "KindClash",
    "LeaseLost",
    "LevelsetError",
    "Malformed",
    "NotCached",
    "NotFound",
    "NotReady",
    "PatchFailed",
    "Retry",
    "ServerFailed",
    "TimedOut",
    "TooManyRequests",
    "Unauthorized",
    "UnknownKind",
    "Unreachable",
]


class LevelsetError(Exception):
    """The base class of all errors that levelset raises on purpose.

    What to do: catch it where any failure of levelset has the same consequence, and the class below it that you can
    answer elsewhere.
    """


class Cause(Struct, frozen=True):
    """One problem of an invalid object (`details.causes` of a Status)."""

    field: str
    reason: str
    message: str


class ApiError(LevelsetError):
    """The server responded with an error Status; subclasses are by code and reason.

    `request` describes the request, such as `create Website/default/blog`; None unless a client has set it. `warnings`
    are those that a server sends with the error.

    What to do: read `reason` and `causes`, which say what the server refused; in a reconciler let it pass, and the
    object is retried with backoff.
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        causes: Sequence[Cause] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.reason = self.default_reason if reason is None else reason
        self.details: Mapping[str, Any] = dict(details or {})
        self.causes = tuple(causes)
        self.request: str | None = None
        self.warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.request}: {self.message}" if self.request else self.message


class BadRequest(ApiError):
    """400: the request is malformed.

    What to do: correct the request; a retry gets the same answer.
    """

    default_code = 400
    default_reason = "BadRequest"


class Unauthorized(ApiError):
    """401: the credentials are missing or not accepted.

    What to do: log in again, or correct the token, certificate or exec plugin of the kubeconfig's context.
    """

    default_code = 401
    default_reason = "Unauthorized"


class Forbidden(ApiError):
    """403: the user is not allowed to do this; also the result of a denied admission.

    What to do: grant the verb that the message names (`levelset generate manifests` writes the roles), or meet the
    condition of the webhook or policy that it names.
    """

    default_code = 403
    default_reason = "Forbidden"


class NotFound(ApiError, LookupError):
    """404: no such object, kind or path.

    What to do: treat it as an answer: create the object, or stop if it is the one being reconciled;
    `missing_ok=True` makes a delete of nothing no error.
    """

    default_code = 404
    default_reason = "NotFound"


class Conflict(ApiError):
    """409: another writer was faster; read the object, decide and write again.

    What to do: in a reconciler let it pass: the object is read from the server and reconciled again within
    milliseconds; elsewhere use `retry_on_conflict`, or `apply`, which needs no version.
    """

    default_code = 409
    default_reason = "Conflict"


class AlreadyExists(Conflict):
    """409 on create: an object of this name exists.

    What to do: read the object and decide whether it is yours; `apply` and `ensure` create or update, and names
    derived from the parent make a repeated create harmless.
    """

    default_reason = "AlreadyExists"


class FieldConflict(Struct, frozen=True):
    """One field that an apply would change although another manager owns it."""

    manager: str
    field: str
    message: str


class ApplyConflict(Conflict):
    """409 on server-side apply: other managers own fields; `conflicts` lists managers and fields.

    What to do: leave the field to the manager that `conflicts` names, or take it over with `force=True`.
    """

    def __init__(self, message: str, conflicts: Sequence[FieldConflict]) -> None:
        causes = [Cause(one.field, "FieldManagerConflict", one.message) for one in conflicts]
        super().__init__(message, causes=causes)
        self.conflicts = tuple(conflicts)


class Expired(ApiError):
    """410: the resource version is too old; list again and continue from there.

    What to do: list again and continue from the version of that list; watches and caches of levelset do so by
    themselves.
    """

    default_code = 410
    default_reason = "Expired"


class Invalid(ApiError):
    """422: the object is not valid; `causes` lists the fields and problems.

    What to do: correct the fields in `causes`; in a reconciler raise GiveUp if they come from the spec, since only
    its author can correct them.
    """

    default_code = 422
    default_reason = "Invalid"


class TooManyRequests(ApiError):
    """429: the server is busy, or a disruption budget refuses an eviction; `retry_after` is in seconds, if given.

    What to do: wait `retry_after` seconds; the client does so by itself before it raises this, so lower
    `concurrency` if it comes often.
    """

    default_code = 429
    default_reason = "TooManyRequests"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        causes: Sequence[Cause] = (),
    ) -> None:
        super().__init__(message, code=code, reason=reason, details=details, causes=causes)
        self.retry_after = retry_after


class ServerFailed(ApiError):
    """5xx: the server failed; the same request may succeed later.

    What to do: retry reads; a write may have taken effect, so read before it is sent again. A reconciler lets it
    pass.
    """


class Unreachable(LevelsetError, OSError):
    """No response: refused, reset, timed out, or not resolved.

    `is_sent` is False if the request cannot have reached the server, so that it is safe to send it again.

    What to do: check the address and the network; retry if `is_sent` is False, otherwise read first, since the
    write may have taken effect.
    """

    def __init__(self, message: str, *, is_sent: bool = True) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class TimedOut(Unreachable, TimeoutError):
    """No response within the timeout of the request, which may have taken effect nevertheless.

    What to do: read whether the request took effect; raise `timeout=` of the client or the call if the server is
    only slow.
    """


class ConfigError(LevelsetError):
    """A kubeconfig, a credential or an option is wrong: correct it and start again.

    What to do: correct what the message names; a retry does not help.
    """


class KindClash(ConfigError):
    """Two classes define the same kind or resource; rename one, or put them into separate schemes.

    What to do: rename one of the classes, or put them into separate schemes.
    """


class NotCached(ConfigError):
    """A cached read of a kind that is not watched: declare it, or read it live.

    What to do: declare the kind with a relation such as `owns(Kind)` or `watches(Kind, ...)`, or read it from the
    server with `ctx.live(ref)`.
    """


class UnknownKind(LevelsetError, LookupError):
    """The server does not serve this kind: install its CRD, or correct the group, version or kind.

    What to do: install its definition (`levelset install`), or correct `api=` of the class; a watch waits until the
    kind is served.
    """


class NotReady(LevelsetError, TimeoutError):
    """A cache did not sync in time; `cause` is the error of its last attempt, if it failed.

    What to do: read `cause`: it is mostly a missing permission (list, watch) or definition; raise `sync_within` of
    the Manager for very large caches.
    """

    def __init__(self, message: str, *, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Deadline(LevelsetError, TimeoutError):
    """A wait did not end within its time.

    What to do: find out why what the message names did not happen, or allow more time.
    """


class Malformed(LevelsetError, ValueError):
    """Input that cannot be parsed.

    `field` is the path of the invalid member (`spec.ports[0].name`) of a tree, `position` the offset of the invalid
    character (or byte) of a text; the one that does not apply is None.

    What to do: correct the input at `field` or `position`.
    """

    def __init__(self, message: str, *, field: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.position = position


class BadObject(Malformed):
    """JSON, YAML or a tree that is not a valid object.

    What to do: correct the document at the field that the message names; `kubectl apply --dry-run=server` checks a
    file as a whole.
    """


class BadName(Malformed):
    """A string that is not a kind, group, version, resource or ref.

    What to do: correct the name; the message says which form it must have.
    """


class BadTime(Malformed):
    """A string that is not an RFC 3339 time.

    What to do: write it as 2026-01-31T12:00:00Z.
    """


class BadQuantity(Malformed):
    """A string that is not a quantity such as 500m or 1Gi.

    What to do: write a number with one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an
    exponent.
    """


class BadSelector(Malformed):
    """A label or field selector that is invalid.

    `api_message` is what kube-apiserver says of the same text, if the selector was parsed from one.

    What to do: write it as kubectl does: `app=shop,tier in (web,api),!old`.
    """

    def __init__(
        self, message: str, *, field: str | None = None, position: int | None = None, api_message: str = ""
    ) -> None:
        super().__init__(message, field=field, position=position)
        self.api_message = api_message


class BadPointer(Malformed):
    """A string that is not a JSON pointer, or one that points nowhere in this document.

    What to do: begin it with `/`, escape `~` as `~0` and `/` as `~1`, and check that the document has what it
    points to.
    """


class BadPatch(Malformed):
    """A document that is not a valid patch of its type.

    What to do: compare it with the type of the patch: a list of operations for JSON patch, an object for the
    others.
    """


class PatchFailed(LevelsetError):
    """A valid patch that does not apply to this document; nothing was changed.

    `path` is where it failed, `index` the number of the operation in a JSON patch.

    What to do: read the object again and make the patch from it; a failed `test` means that another writer was
    faster.
    """

    def __init__(self, message: str, *, path: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.index = index


class BadOwner(LevelsetError):
    """This owner must not own this object: a second controller, or an owner in another namespace.

    What to do: let one controller own the object, and keep owner and owned object in one namespace, or let the
    owner be cluster-scoped.
    """


class KeyTaken(LevelsetError):
    """Two objects claim the same external resource: `key` belongs to the state of `owner`.

    What to do: let the objects claim different keys, or delete one of them; raise GiveUp to say so in the status of
    the second.
    """

    def __init__(self, message: str, *, key: object, owner: object) -> None:
        super().__init__(message)
        self.key = key
        self.owner = owner


class LeaseLost(LevelsetError):
    """This process is not the leader any more: another one may act already, and this one must stop.

    What to do: end the process and let it be restarted, as `run` does; if it comes often, the API server is slow or
    the event loop is blocked.
    """


class Fenced(LeaseLost):
    """A write that only the leader may send, and this process is not the leader; it was not sent.

    What to do: do nothing: the leader does the work. If every replica should write, give the controller
    `leader_only=False`.
    """


class Retry(LevelsetError):
    """Raised by a reconciler: something is not ready yet, requeue after `seconds` (None: with backoff).

    What to do: raise it for what will be there later, with `seconds` if you know when; to be called again without
    an error return `requeue(...)`.
    """

    def __init__(self, message: str, *, seconds: float | None = None) -> None:
        super().__init__(message)
        given: object = seconds
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float)):
            raise TypeError(f"Retry(seconds={given!r}): write a number of seconds, such as seconds=300")
        self.seconds = seconds


class GiveUp(LevelsetError):
    """Raised by a reconciler: a retry does not help until the spec changes.

    What to do: correct the spec, which reconciles the object again; raise it for what only the author of the spec
    can correct.
    """


class Denied(LevelsetError):
    """Raised by an admission function: the request is denied; `field` names the reason.

    What to do: change what the message says and send the request again; raise it in a webhook with the `field` that
    is wrong.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
