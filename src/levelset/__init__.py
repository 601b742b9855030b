"""levelset: the controller runtime of Python.

The shop window: the names that most programs need. Everything else is reached through its room, such as
`levelset.aio`, `levelset.objects` and `levelset.patch`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from levelset.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadRequest,
    ConfigError,
    Conflict,
    Deadline,
    Denied,
    Expired,
    Forbidden,
    GiveUp,
    Invalid,
    LevelsetError,
    Malformed,
    NotCached,
    NotFound,
    NotReady,
    Retry,
    ServerFailed,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    UnknownKind,
    Unreachable,
)
from levelset.objects import (
    Column,
    Condition,
    GroupVersionKind,
    ListMap,
    ListSet,
    Meta,
    Model,
    Object,
    ObjectMeta,
    OwnerReference,
    Quantity,
    Ref,
    Resource,
    Rule,
    Scale,
    Scheme,
    Spec,
    Status,
    Unstructured,
    decode,
    encode,
    field,
    find_condition,
    read_manifests,
    replace,
    set_condition,
    set_controller,
    set_owner,
    without_managed_fields,
    write_manifests,
)

if TYPE_CHECKING:
    from levelset.aio import merge
    from levelset.client import (
        Client,
        Config,
        JsonPatch,
        MergePatch,
        OnlyMetadata,
        StrategicPatch,
        load_config,
        retry_on_conflict,
    )
    from levelset.objects import FieldSelector, LabelSelector
    from levelset.runtime.cache import Change, Cluster, Index, Store, by_label, by_namespace, by_owner, store
    from levelset.runtime.controller import (
        Action,
        Context,
        Controller,
        Outcome,
        Reason,
        Request,
        await_change,
        drive,
        every,
        matches,
        owns,
        references,
        remembers,
        requeue,
        source,
        watches,
    )
    from levelset.runtime.manager import LeaderElection, Manager, System, open_local, run
    from levelset.runtime.state import StateMap
    from levelset.runtime.watch import (
        Apply,
        Delete,
        Event,
        Init,
        InitApply,
        InitDone,
        all_of,
        any_of,
        by,
        not_,
        transforming,
        watch,
        without_fields,
    )
    from levelset.runtime.webhook import Review, converts, defaults, validates

__all__ = [
    "Action",
    "AlreadyExists",
    "ApiError",
    "Apply",
    "ApplyConflict",
    "BadRequest",
    "Change",
    "Client",
    "Cluster",
    "Column",
    "Condition",
    "Config",
    "ConfigError",
    "Conflict",
    "Context",
    "Controller",
    "Deadline",
    "Delete",
    "Denied",
    "Event",
    "Expired",
    "FieldSelector",
    "Forbidden",
    "GiveUp",
    "GroupVersionKind",
    "Index",
    "Init",
    "InitApply",
    "InitDone",
    "Invalid",
    "JsonPatch",
    "LabelSelector",
    "LeaderElection",
    "LevelsetError",
    "ListMap",
    "ListSet",
    "Malformed",
    "Manager",
    "MergePatch",
    "Meta",
    "Model",
    "NotCached",
    "NotFound",
    "NotReady",
    "Object",
    "ObjectMeta",
    "OnlyMetadata",
    "Outcome",
    "OwnerReference",
    "Quantity",
    "Reason",
    "Ref",
    "Request",
    "Resource",
    "Retry",
    "Review",
    "Rule",
    "Scale",
    "Scheme",
    "ServerFailed",
    "Spec",
    "StateMap",
    "Status",
    "Store",
    "StrategicPatch",
    "System",
    "TimedOut",
    "TooManyRequests",
    "Unauthorized",
    "UnknownKind",
    "Unreachable",
    "Unstructured",
    "all_of",
    "any_of",
    "await_change",
    "by",
    "by_label",
    "by_namespace",
    "by_owner",
    "converts",
    "decode",
    "defaults",
    "drive",
    "encode",
    "every",
    "field",
    "find_condition",
    "load_config",
    "matches",
    "merge",
    "not_",
    "open_local",
    "owns",
    "read_manifests",
    "references",
    "remembers",
    "replace",
    "requeue",
    "retry_on_conflict",
    "run",
    "set_condition",
    "set_controller",
    "set_owner",
    "source",
    "store",
    "transforming",
    "validates",
    "watch",
    "watches",
    "without_fields",
    "without_managed_fields",
    "write_manifests",
]

# What talks to a server is loaded when it is first asked for: sockets, TLS and the parser of HTTP take their time, and
# a program that only reads and writes objects needs none of them.
_ROOMS: Final = {
    "levelset.aio": "merge",
    "levelset.runtime.cache": "Change Cluster Index Store by_label by_namespace by_owner store",
    "levelset.client": "Client Config JsonPatch MergePatch OnlyMetadata StrategicPatch load_config retry_on_conflict",
    "levelset.runtime.controller": (
        "Action Context Controller Outcome Reason Request await_change drive every matches owns references remembers "
        "requeue source watches"
    ),
    "levelset.runtime.manager": "LeaderElection Manager System open_local run",
    "levelset.objects": "FieldSelector LabelSelector",
    "levelset.runtime.state": "StateMap",
    "levelset.runtime.watch": (
        "Apply Delete Event Init InitApply InitDone all_of any_of by not_ transforming watch without_fields"
    ),
    "levelset.runtime.webhook": "Review converts defaults validates",
}
_LATE: Final = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    room = _LATE.get(name)
    if room is None:
        raise AttributeError(f"module 'levelset' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(room), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
