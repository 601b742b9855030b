"""levelset: Kubernetes controllers in Python.

This package exports the names that most programs need. Everything else is imported from its own package, such as
`levelset.objects`, `levelset.client`, `levelset.runtime.cache`, `levelset.testing` or `levelset.errors`.
"""

from typing import TYPE_CHECKING, Any

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.client import Client, Config, MergePatch, OnlyMetadata
    from levelset.errors import ApiError, Conflict, Denied, GiveUp, LevelsetError, NotFound, Retry
    from levelset.objects import (
        Column,
        Condition,
        GroupVersionKind,
        LabelSelector,
        ListMap,
        Meta,
        Object,
        ObjectMeta,
        Quantity,
        Ref,
        Resource,
        Rule,
        Scale,
        Spec,
        Status,
        Unstructured,
        decode,
        encode,
        field,
        replace,
        set_condition,
        set_controller,
    )
    from levelset.runtime.cache import Cluster, Index
    from levelset.runtime.controller import (
        Action,
        Context,
        Controller,
        Request,
        await_change,
        every,
        matches,
        owns,
        references,
        remembers,
        requeue,
        source,
        watches,
    )
    from levelset.runtime.manager import LeaderElection, Manager, Sharding, System, open_local
    from levelset.runtime.manager.run import run
    from levelset.runtime.state import StateMap
    from levelset.runtime.watch import all_of, any_of, by, not_, watch
    from levelset.runtime.webhook import Review, converts, defaults, validates

    __version__: str

__all__ = [
    "Action",
    "ApiError",
    "Client",
    "Cluster",
    "Column",
    "Condition",
    "Config",
    "Conflict",
    "Context",
    "Controller",
    "Denied",
    "GiveUp",
    "GroupVersionKind",
    "Index",
    "LabelSelector",
    "LeaderElection",
    "LevelsetError",
    "ListMap",
    "Manager",
    "MergePatch",
    "Meta",
    "NotFound",
    "Object",
    "ObjectMeta",
    "OnlyMetadata",
    "Quantity",
    "Ref",
    "Request",
    "Resource",
    "Retry",
    "Review",
    "Rule",
    "Scale",
    "Sharding",
    "Spec",
    "StateMap",
    "Status",
    "System",
    "Unstructured",
    "all_of",
    "any_of",
    "await_change",
    "by",
    "converts",
    "decode",
    "defaults",
    "encode",
    "every",
    "field",
    "matches",
    "not_",
    "open_local",
    "owns",
    "references",
    "remembers",
    "replace",
    "requeue",
    "run",
    "set_condition",
    "set_controller",
    "source",
    "validates",
    "watch",
    "watches",
]

_get, __dir__ = late_exports(
    __name__,
    {
        "levelset.client": "Client Config MergePatch OnlyMetadata",
        "levelset.errors": "ApiError Conflict Denied GiveUp LevelsetError NotFound Retry",
        "levelset.objects": (
            "Column Condition GroupVersionKind LabelSelector ListMap Meta Object ObjectMeta Quantity Ref Resource Rule "
            "Scale Spec Status Unstructured decode encode field replace set_condition set_controller"
        ),
        "levelset.runtime.cache": "Cluster Index",
        "levelset.runtime.controller": (
            "Action Context Controller Request await_change every matches owns references remembers requeue source "
            "watches"
        ),
        "levelset.runtime.manager": "LeaderElection Manager Sharding System open_local",
        "levelset.runtime.manager.run": "run",
        "levelset.runtime.state": "StateMap",
        "levelset.runtime.watch": "all_of any_of by not_ watch",
        "levelset.runtime.webhook": "Review converts defaults validates",
    },
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            # Read on first use: the reader of metadata takes longer to load than this package.
            from importlib.metadata import version  # noqa: PLC0415

            return globals().setdefault(name, version("levelset"))
        return _get(name)
