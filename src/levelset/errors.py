"""Every error that levelset raises, as one tree.

```
LevelsetError
├── ApiError                a server answered with a Status      (code, reason, message, details)
│   ├── BadRequest          400   our request makes no sense
│   ├── Unauthorized        401   who are you
│   ├── Forbidden           403   known, but not allowed; also a denied admission
│   ├── NotFound            404   also a LookupError
│   ├── Conflict            409   somebody else wrote first
│   │   ├── AlreadyExists
│   │   └── ApplyConflict         another manager owns the field   (conflicts)
│   ├── Expired             410   the revision is too old: list again
│   ├── Invalid             422   the object breaks its schema     (causes by field)
│   ├── TooManyRequests     429   (retry_after)
│   └── ServerFailed        5xx
├── Unreachable             no answer at all; also an OSError        (is_sent)
│   └── TimedOut            no answer in time; also a TimeoutError
├── ConfigError             kubeconfig, credentials, options: fix the file and start again
│   ├── KindClash           two classes claim the same kind or resource
│   └── NotCached           a cached read of a kind that nobody declared
├── UnknownKind             the server does not serve this kind (yet); also a LookupError
├── NotReady                a cache that has not synced in time; also a TimeoutError   (cause)
├── Deadline                what was waited for did not happen in time; also a TimeoutError
├── Malformed               input that cannot be read; also a ValueError   (field or position)
│   ├── BadObject           JSON, YAML or a tree that is not the object it should be
│   ├── BadName             a kind, group, version or ref that is none
│   ├── BadTime             a text that is no RFC 3339 time
│   ├── BadQuantity         a text that is no quantity
│   ├── BadSelector         a label or field selector that does not parse
│   ├── BadPointer          a text that is no JSON pointer, or leads nowhere
│   └── BadPatch            a patch that is none
├── PatchFailed             a sound patch that does not fit the document   (path, index)
├── BadOwner                this owner may not own this object
├── KeyTaken                a real-world key that another object's state has   (key, owner)
├── LeaseLost               this process leads no longer, and must stop
│   └── Fenced              what only a leader may write, and we do not lead
├── Retry(seconds=)         raised by a reconciler: look again then
├── GiveUp                  raised by a reconciler: do not look again until the spec changes
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
    """The root: catch this to catch everything that levelset raises on purpose."""


class Cause(Struct, frozen=True):
    """One thing that is wrong with an object: where, what kind of wrong, and in words."""

    field: str
    reason: str
    message: str


class ApiError(LevelsetError):
    """A server answered with a Status; the class says which, the attributes say the rest.

    `request` says in words what was asked, such as `create Website/default/blog`, once a client has set it.
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
    """400: the request makes no sense."""

    default_code = 400
    default_reason = "BadRequest"


class Unauthorized(ApiError):
    """401: the server does not know who asks."""

    default_code = 401
    default_reason = "Unauthorized"


class Forbidden(ApiError):
    """403: known, but not allowed; also what a denied admission looks like."""

    default_code = 403
    default_reason = "Forbidden"


class NotFound(ApiError, LookupError):
    """404: no such object, kind or path."""

    default_code = 404
    default_reason = "NotFound"


class Conflict(ApiError):
    """409: somebody else wrote first; read again, decide again, write again."""

    default_code = 409
    default_reason = "Conflict"


class AlreadyExists(Conflict):
    """409 on create: the name is taken."""

    default_reason = "AlreadyExists"


class FieldConflict(Struct, frozen=True):
    """One field that an apply would change although somebody else owns it."""

    manager: str
    field: str
    message: str


class ApplyConflict(Conflict):
    """409 on server-side apply: another manager owns a field; `conflicts` names both."""

    def __init__(self, message: str, conflicts: Sequence[FieldConflict]) -> None:
        causes = [Cause(one.field, "FieldManagerConflict", one.message) for one in conflicts]
        super().__init__(message, causes=causes)
        self.conflicts = tuple(conflicts)


class Expired(ApiError):
    """410: the revision is too old; list again and go on from there."""

    default_code = 410
    default_reason = "Expired"


class Invalid(ApiError):
    """422: the object breaks its schema; `causes` says where and how."""

    default_code = 422
    default_reason = "Invalid"


class TooManyRequests(ApiError):
    """429: slow down; `retry_after` says for how many seconds, if the server said."""

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
    """5xx: the server could not do it; the same request may work later."""


class Unreachable(LevelsetError, OSError):
    """No answer at all: refused, reset, timed out, or not resolved.

    `is_sent` is False if the request cannot have reached the server, so that it is safe to send it again.
    """

    def __init__(self, message: str, *, is_sent: bool = True) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class TimedOut(Unreachable, TimeoutError):
    """No answer within the time that the request was given; the server may have done it all the same."""


class ConfigError(LevelsetError):
    """A kubeconfig, a credential or an option is wrong: fix it and start again."""


class KindClash(ConfigError):
    """Two classes claim the same kind or the same resource; rename one or keep them in two schemes."""


class NotCached(ConfigError):
    """A cached read of a kind that nobody declared: declare it, or ask for a live read."""


class UnknownKind(LevelsetError, LookupError):
    """The server does not serve this kind: install its definition, or correct the group, version or kind."""


class NotReady(LevelsetError, TimeoutError):
    """A cache that has not synced in time; `cause` is what its last attempt failed with, if it failed."""

    def __init__(self, message: str, *, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Deadline(LevelsetError, TimeoutError):
    """What was waited for did not happen within the time given."""


class Malformed(LevelsetError, ValueError):
    """Input that cannot be read.

    `field` is the path of the offending member (`spec.ports[0].name`) where the input is a tree, `position` the offset
    of the offending character (or byte) where it is a text; the one that does not apply is None.
    """

    def __init__(self, message: str, *, field: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.position = position


class BadObject(Malformed):
    """JSON, YAML or a tree that is not the object it should be."""


class BadName(Malformed):
    """A text that is no kind, group, version, resource or ref."""


class BadTime(Malformed):
    """A text that is no RFC 3339 time."""


class BadQuantity(Malformed):
    """A text that is no quantity such as 500m or 1Gi."""


class BadSelector(Malformed):
    """A label or field selector that does not parse."""


class BadPointer(Malformed):
    """A text that is no JSON pointer, or one that leads nowhere in this document."""


class BadPatch(Malformed):
    """A document that is no patch of the kind it claims to be."""


class PatchFailed(LevelsetError):
    """A sound patch that does not fit this document; nothing was changed.

    `path` is where it went wrong, `index` the number of the operation in a JSON patch.
    """

    def __init__(self, message: str, *, path: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.index = index


class BadOwner(LevelsetError):
    """This owner may not own this object: a second controller, or an owner in another namespace."""


class KeyTaken(LevelsetError):
    """Two objects claim the same thing of the real world: `key` belongs to the state of `owner` already."""

    def __init__(self, message: str, *, key: object, owner: object) -> None:
        super().__init__(message)
        self.key = key
        self.owner = owner


class LeaseLost(LevelsetError):
    """This process leads no longer: somebody else may do its work already, and it must stop."""


class Fenced(LeaseLost):
    """A write that only a leader may send, and this process does not lead; it was not sent."""


class Retry(LevelsetError):
    """Raised by a reconciler: something is not there yet, look again after `seconds` (None: after a growing while)."""

    def __init__(self, message: str, *, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class GiveUp(LevelsetError):
    """Raised by a reconciler: looking again is of no use until the spec changes."""


class Denied(LevelsetError):
    """Raised by an admission function: the request is refused; `field` says because of what."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
