"""Write and delete options of a request: dry run, field manager, field validation, preconditions and propagation."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
from msgspec.structs import replace

from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.protobuf import PROTOBUF, read_protobuf
from levelset.apiserver.wire.status_errors import unsupported_media_type
from levelset.apiserver.wire.step_limits import LARGE_OBJECT
from levelset.errors import BadObject, BadRequest, Cause
from levelset.http.messages import Request
from levelset.objects import decode_tree
from levelset.objects.lazy_pattern import Pattern

if TYPE_CHECKING:
    from levelset.apiserver.admission.chain import AdmissionContext
    from levelset.apiserver.authn.users import User
    from levelset.apiserver.authz.escalation import WriteAuthorizer

__all__ = [
    "DeleteOptions",
    "OptionsKind",
    "Propagation",
    "Validation",
    "WriteOptions",
    "delete_options",
    "is_true",
    "read_delete_options",
    "read_list_numbers",
    "write_options",
]

Validation = Literal["Ignore", "Strict", "Warn"]
Propagation = Literal["Background", "Foreground", "Orphan"]
OptionsKind = Literal["CreateOptions", "PatchOptions", "UpdateOptions"]

VALIDATIONS: Final = ("Ignore", "Strict", "Warn")
PROPAGATIONS: Final = ("Background", "Foreground", "Orphan")
MAX_MANAGER_BYTES: Final = 128
UNKNOWN_MANAGER: Final = "unknown"
SERVER_MANAGER: Final = "kube-apiserver"
"""The field manager of what the server writes by itself, as upstream."""
CBOR: Final = "application/cbor"
_MAX_CACHED_QUERY: Final = 512
_MAX_DIGITS: Final = 100
_INTEGER: Final = Pattern(r"[+-]?[0-9]+")


class WriteOptions(msgspec.Struct, frozen=True):
    """How to write one object; the defaults are those of a write from inside the process."""

    manager: str = SERVER_MANAGER
    """The field manager that will own the written fields."""
    dry_run: bool = False
    validation: Validation = "Warn"
    force: bool | None = None
    """Whether an apply takes over fields of other managers; None if the request does not say."""
    has_manager: bool = False
    """Whether the request names its field manager, as an apply must."""
    subresource: str = ""
    duplicates: tuple[str, ...] = ()
    """The paths of fields that occur twice in the body."""
    warnings: list[str] = []  # msgspec copies it per instance, which is faster than a default factory
    """Collects the warnings for the client of a successful write."""
    admission: "AdmissionContext | None" = None
    """The admission chain and user of the write; None if no plugin handles it."""
    authorizer: "WriteAuthorizer | None" = None
    """The authorization checks that need the object; None if the user may do everything."""
    creates_on_update: bool = False
    """Whether an update creates the object, which upstream prepares a little less than a POST."""
    is_large: bool = False
    """Whether the body is so large that a thread prepares the write."""
    user: "User | None" = None
    """The user of the write, for a kind that records who created an object."""
    annotations: dict[str, str] | None = None
    """Collects the annotations of the audit event; None if there is none."""


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete one object or many."""

    dry_run: bool = False
    grace_seconds: int | None = None
    uid: str | None = None
    """The object must have this uid."""
    resource_version: str | None = None
    """The object must be at this version."""
    propagation: Propagation | None = None
    """What happens to the dependents; None leaves it to the object's finalizers, then to the kind's default."""
    orphan_dependents: bool | None = None
    """The deprecated `orphanDependents` of the request."""
    admission: "AdmissionContext | None" = None
    """The admission chain and user of the delete; None if no plugin handles it."""


def write_options(
    request: Request,
    kind: OptionsKind,
    *,
    subresource: str = "",
    duplicates: tuple[str, ...] = (),
    is_apply: bool = False,
) -> WriteOptions:
    """The options of a create, update or patch request; raises Invalid (422) naming the invalid parameter."""
    if not request.query:
        options = WriteOptions(_default_manager(request), False, "Warn", None, False, subresource, duplicates)
        return options if len(request.body) <= LARGE_OBJECT else replace(options, is_large=True)
    if len(request.query) <= _MAX_CACHED_QUERY:
        manager, dry_run, validation, force = _cached_write_query(request.query, kind, is_apply)
    else:
        manager, dry_run, validation, force = _read_write_query(request.query, kind, is_apply)
    options = WriteOptions(
        manager or _default_manager(request), dry_run, validation, force, bool(manager), subresource, duplicates
    )
    return options if len(request.body) <= LARGE_OBJECT else replace(options, is_large=True)


def _read_write_query(query: str, kind: OptionsKind, is_apply: bool) -> tuple[str, bool, Validation, bool | None]:
    """Field manager, dry run, validation and force of a query; raises Invalid (422)."""
    request = Request("", "", query)
    validation = request.parameter("fieldValidation") or "Warn"
    manager = request.parameter("fieldManager") or ""
    causes = _check_dry_run(request.parameters.get("dryRun", ()))
    if validation not in VALIDATIONS:
        causes.append(field_errors.not_supported("fieldValidation", validation, ("", *VALIDATIONS)))
    causes += _check_manager(manager)
    if is_apply and not manager:
        causes.append(field_errors.required("fieldManager", "is required for apply patch"))
    if causes:
        raise status_errors.invalid_options(kind, causes)
    return manager, "dryRun" in request.parameters, cast("Validation", validation), _flag(request, "force")


_cached_write_query: Final = lru_cache(maxsize=256)(
    _read_write_query
)  # a client sends the same query with all of its writes


def delete_options(request: Request) -> DeleteOptions:
    """The options of a delete request, from its body or, without one, from its query.

    Raises BadRequest for options that cannot be decoded, and Invalid (422) for unknown values and contradictions.
    """
    return read_delete_options(
        _read_body(request) if request.body.strip() else _read_query(request) if request.query else {}
    )


def read_delete_options(given: dict[str, Any]) -> DeleteOptions:
    """Reads DeleteOptions; raises BadRequest and Invalid (422)."""
    if not given:
        return DeleteOptions()
    dry_run: list[Any] = _typed(given, "dryRun", list) or []
    propagation: str | None = _typed(given, "propagationPolicy", str)
    orphan: bool | None = _typed(given, "orphanDependents", bool)
    causes = _check_dry_run(tuple(dry_run))
    causes += _check_propagation(propagation, orphan)
    if causes:
        raise status_errors.invalid_options("DeleteOptions", causes)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    preconditions: dict[str, Any] = _typed(given, "preconditions", dict) or {}
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_seconds=_typed(given, "gracePeriodSeconds", int),
        uid=_typed(preconditions, "uid", str),
        resource_version=_typed(preconditions, "resourceVersion", str),
        propagation=cast("Propagation | None", propagation),
        orphan_dependents=orphan,
    )


def read_list_numbers(first: Mapping[str, str]) -> tuple[float | None, int | None]:
    """The seconds after which a watch ends, and the limit of a list; None, as 0 and less, for those of the server."""
    seconds, limit = _number(first.get("timeoutSeconds")), _number(first.get("limit"))
    return (float(seconds) if seconds > 0 else None), (limit if limit > 0 else None)


def is_true(text: str | None) -> bool:
    """Whether a flag of a query is set: as upstream, by everything but `false` and `0`."""
    return text is not None and text.lower() not in ("false", "0")


def _number(text: str | None) -> int:
    """A number of a query as Go reads it; raises BadRequest in its words."""
    if text is None:
        return 0
    if len(text) < 10 and text.isascii() and text.isdigit():  # nearly always
        return int(text)
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f"strconv.ParseInt: parsing {field_errors.show(text)}: invalid syntax")
    number = int(text) if len(text) <= _MAX_DIGITS else 2**63
    if not -(2**63) <= number < 2**63:
        raise BadRequest(f"strconv.ParseInt: parsing {field_errors.show(text)}: value out of range")
    return number


def _default_manager(request: Request) -> str:
    """The field manager of a request that names none: the first part of its user agent."""
    header = request.headers.find("user-agent")
    return _manager_of_agent(header) if header else UNKNOWN_MANAGER


@lru_cache(maxsize=256)
def _manager_of_agent(header: str) -> str:
    agent = header.partition("/")[0]
    if not agent.isprintable():
        agent = "".join([letter for letter in agent if letter.isprintable()])
    return agent[:MAX_MANAGER_BYTES] or UNKNOWN_MANAGER


def _check_dry_run(values: tuple[Any, ...]) -> list[Cause]:
    return [] if set(values) <= {"All"} else [field_errors.not_supported("dryRun", list(values), ["All"])]


def _check_manager(manager: str) -> list[Cause]:
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        return [field_errors.too_long("fieldManager", MAX_MANAGER_BYTES)]
    if not manager.isprintable():
        return [field_errors.invalid("fieldManager", manager, "should only contain printable characters")]
    return []


def _check_propagation(policy: str | None, orphan: bool | None) -> list[Cause]:
    if policy is None:
        return []
    if orphan is not None:
        problem = "orphanDependents and propagationPolicy cannot both be given"
        return [field_errors.invalid("propagationPolicy", policy, problem)]
    known = ("Foreground", "Background", "Orphan", "nil")  # the order and the last one are upstream's
    return [] if policy in PROPAGATIONS else [field_errors.not_supported("propagationPolicy", policy, known)]


def _flag(request: Request, name: str) -> bool | None:
    """A flag of a query; None if it is not given."""
    given = request.parameter(name)
    return None if given is None else is_true(given)


def _read_query(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "dryRun" in request.parameters:
        found["dryRun"] = list(request.parameters["dryRun"])
    policy = request.parameter("propagationPolicy")
    if policy:
        found["propagationPolicy"] = policy
    if "orphanDependents" in request.parameters:
        found["orphanDependents"] = _flag(request, "orphanDependents")
    grace = request.parameter("gracePeriodSeconds")
    if grace is not None:
        found["gracePeriodSeconds"] = _number(grace)
    return found


def _read_body(request: Request) -> dict[str, Any]:
    try:
        tree = _decoded(request)
    except BadObject as error:
        raise BadRequest(f"the body must be DeleteOptions: {error}") from error
    if not isinstance(tree, dict):
        raise BadRequest("the body must be a DeleteOptions object")
    found = cast("dict[str, Any]", tree)
    if found.get("kind", "DeleteOptions") != "DeleteOptions":
        raise BadRequest(f"the body must be DeleteOptions, not {found.get('kind')!r}")
    return found


def _decoded(request: Request) -> Any:
    given = (request.headers.find("content-type") or "").partition(";")[0].strip().lower()
    if given == PROTOBUF:
        return read_protobuf(request.body)
    if given == CBOR:
        raise unsupported_media_type(f"application/json, application/yaml, {PROTOBUF}")
    if "yaml" not in given:
        return decode_tree(request.body)
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415 - loads the YAML parser only when it is needed

    documents = read_yaml(request.body)
    return documents[0] if documents else {}


def _typed(tree: dict[str, Any], name: str, kind: type) -> Any:
    value = tree.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"{name} of the DeleteOptions must be a {kind.__name__}, not {value!r}")
    return value
