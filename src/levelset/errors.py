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
    """The base class of all errors that levelset raises on purpose."""


class Cause(Struct, frozen=True):
    """One problem of an invalid object (`details.causes` of a Status)."""

    field: str
    reason: str
    message: str


class ApiError(LevelsetError):
    """The server responded with an error Status; subclasses are by code and reason.

    `request` describes the request, such as `create Website/default/blog`; None unless a client has set it.
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

    def __str__(self) -> str:
        return f"{self.request}: {self.message}" if self.request else self.message


class BadRequest(ApiError):
    """400: the request is malformed."""

    default_code = 400
    default_reason = "BadRequest"


class Unauthorized(ApiError):
    """401: the credentials are missing or not accepted."""

    default_code = 401
    default_reason = "Unauthorized"


class Forbidden(ApiError):
    """403: the user is not allowed to do this; also the result of a denied admission."""

    default_code = 403
    default_reason = "Forbidden"


class NotFound(ApiError, LookupError):
    """404: no such object, kind or path."""

    default_code = 404
    default_reason = "NotFound"


class Conflict(ApiError):
    """409: another writer was faster; read the object, decide and write again."""

    default_code = 409
    default_reason = "Conflict"


class AlreadyExists(Conflict):
    """409 on create: an object of this name exists."""

    default_reason = "AlreadyExists"


class FieldConflict(Struct, frozen=True):
    """One field that an apply would change although another manager owns it."""

    manager: str
    field: str
    message: str


class ApplyConflict(Conflict):
    """409 on server-side apply: other managers own fields; `conflicts` lists managers and fields."""

    def __init__(self, message: str, conflicts: Sequence[FieldConflict]) -> None:
        causes = [Cause(one.field, "FieldManagerConflict", one.message) for one in conflicts]
        super().__init__(message, causes=causes)
        self.conflicts = tuple(conflicts)


class Expired(ApiError):
    """410: the resource version is too old; list again and continue from there."""

    default_code = 410
    default_reason = "Expired"


class Invalid(ApiError):
    """422: the object is not valid; `causes` lists the fields and problems."""

    default_code = 422
    default_reason = "Invalid"


class TooManyRequests(ApiError):
    """429: the server is busy, or a disruption budget refuses an eviction; `retry_after` is in seconds, if given."""

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
    """5xx: the server failed; the same request may succeed later."""


class Unreachable(LevelsetError, OSError):
    """No response: refused, reset, timed out, or not resolved.

    `is_sent` is False if the request cannot have reached the server, so that it is safe to send it again.
    """

    def __init__(self, message: str, *, is_sent: bool = True) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class TimedOut(Unreachable, TimeoutError):
    """No response within the timeout of the request, which may have taken effect nevertheless."""


class ConfigError(LevelsetError):
    """A kubeconfig, a credential or an option is wrong: correct it and start again."""


class KindClash(ConfigError):
    """Two classes define the same kind or resource; rename one, or put them into separate schemes."""


class NotCached(ConfigError):
    """A cached read of a kind that is not watched: declare it, or read it live."""


class UnknownKind(LevelsetError, LookupError):
    """The server does not serve this kind: install its CRD, or correct the group, version or kind."""


class NotReady(LevelsetError, TimeoutError):
    """A cache did not sync in time; `cause` is the error of its last attempt, if it failed."""

    def __init__(self, message: str, *, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Deadline(LevelsetError, TimeoutError):
    """A wait did not end within its time."""


class Malformed(LevelsetError, ValueError):
    """Input that cannot be parsed.

    `field` is the path of the invalid member (`spec.ports[0].name`) of a tree, `position` the offset of the invalid
    character (or byte) of a text; the one that does not apply is None.
    """

    def __init__(self, message: str, *, field: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.position = position


class BadObject(Malformed):
    """JSON, YAML or a tree that is not a valid object."""


class BadName(Malformed):
    """A string that is not a kind, group, version, resource or ref."""


class BadTime(Malformed):
    """A string that is not an RFC 3339 time."""


class BadQuantity(Malformed):
    """A string that is not a quantity such as 500m or 1Gi."""


class BadSelector(Malformed):
    """A label or field selector that is invalid."""


class BadPointer(Malformed):
    """A string that is not a JSON pointer, or one that points nowhere in this document."""


class BadPatch(Malformed):
    """A document that is not a valid patch of its type."""


class PatchFailed(LevelsetError):
    """A valid patch that does not apply to this document; nothing was changed.

    `path` is where it failed, `index` the number of the operation in a JSON patch.
    """

    def __init__(self, message: str, *, path: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.index = index


class BadOwner(LevelsetError):
    """This owner must not own this object: a second controller, or an owner in another namespace."""


class KeyTaken(LevelsetError):
    """Two objects claim the same external resource: `key` belongs to the state of `owner`."""

    def __init__(self, message: str, *, key: object, owner: object) -> None:
        super().__init__(message)
        self.key = key
        self.owner = owner


class LeaseLost(LevelsetError):
    """This process is not the leader any more: another one may act already, and this one must stop."""


class Fenced(LeaseLost):
    """A write that only the leader may send, and this process is not the leader; it was not sent."""


class Retry(LevelsetError):
    """Raised by a reconciler: something is not ready yet, requeue after `seconds` (None: with backoff)."""

    def __init__(self, message: str, *, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class GiveUp(LevelsetError):
    """Raised by a reconciler: a retry does not help until the spec changes."""


class Denied(LevelsetError):
    """Raised by an admission function: the request is denied; `field` names the reason."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
