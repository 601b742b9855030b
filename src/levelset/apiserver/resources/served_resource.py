"""What the server knows about one resource in one version: its names, its schema and the rules it goes by.

A `Served` is a value: built-in kinds are written down as such (`builtins`), and a CustomResourceDefinition becomes one
per version (`definitions`). Whatever takes time to make (schema, shape) is made when somebody first asks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from levelset.apiserver.schema import Compiled
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain
from levelset.patch import ANYTHING, Shape

__all__ = ["ALL_VERBS", "Column", "Object", "Rules", "ScalePaths", "ServedResource"]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

# A whole object as a JSON tree; whoever decoded it owns it.
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `path` is a JSONPath, or None for a column that the printer of a built-in kind fills."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""
    path: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ScalePaths:
    """Where the `scale` subresource finds its three values, as JSONPaths such as `.spec.replicas`."""

    spec: str
    status: str
    selector: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """How a kind behaves beyond its schema; the defaults are those of a custom resource.

    `default` fills in what a client leaves out, which then counts as the client's. The `prepare_` functions do what is
    the server's own business: they change the new object in place and see the old one. `validate` gives what is wrong
    with the new one (the old one is None on create). None of them keeps what it is given.
    """

    generation: bool = True
    unconditional_update: bool = False
    create_on_update: bool = False
    name_check: Callable[[str], list[str]] = check_dns1123_subdomain
    default: Callable[[Object], None] | None = None
    prepare_create: Callable[[Object], None] | None = None
    prepare_update: Callable[[Object, Object], None] | None = None
    prepare_status: Callable[[Object, Object], None] | None = None
    # When deletion begins (deletionTimestamp is set): may add finalizers, conditions, a phase.
    prepare_delete: Callable[[Object], None] | None = None
    # Whether an object whose deletion has begun stays although it has no finalizers (a namespace with contents).
    held: Callable[[Object], bool] | None = None
    validate: Callable[[Object, Object | None], list[Cause]] | None = None
    # The rules in CEL of a custom resource, which look at what was found wrong before them.
    expressions: Callable[[Object, Object | None, list[Cause]], list[Cause]] | None = None
    graceful: bool = False
    finalizers_need_slash: bool = False


def _no_schema() -> Compiled | None:
    return None


def _any_shape() -> Shape:
    return ANYTHING


def _no_columns() -> tuple[Column, ...]:
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class ServedResource:
    """One resource in one version, and everything a handler has to know about it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    storage_version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    status: bool = False
    scale: ScalePaths | None = None
    subresources: tuple[str, ...] = ()
    schema: Callable[[], Compiled | None] = _no_schema
    # The schema as somebody wrote it, for custom resources.
    schema_source: Any = None
    shape: Callable[[], Shape] = _any_shape
    column_source: Callable[[], tuple[Column, ...]] = _no_columns
    selectable: tuple[str, ...] = ()
    rules: Rules = field(default_factory=Rules)
    deprecation: str | None = None
    # The definition is being deleted: nothing may be created any more (403), all else goes on.
    terminating: bool = False
    logs: Callable[..., Any] | None = None
    # Two resources that are views of one store (the two kinds of events) name the same place here.
    storage_group: str | None = None
    # Conversions between what is stored and what is served, for a view whose fields have other names; in place.
    from_stored: Callable[[Object], None] | None = None
    to_stored: Callable[[Object], None] | None = None
    # Makes of an object of any version of a custom kind one of the given apiVersion; None if they differ in name only.
    convert: Callable[[Object, str], Object] | None = None
    # Whether a webhook converts, so that reading and storing may have to wait; see `ahead`.
    awaits: bool = False
    # The schema of the storage version, if that is another one.
    storage_schema: Callable[[], Compiled | None] = _no_schema
    # Objects written before this revision may not know today's schema; see `conversion`.
    since: int = 0
    api_version: str = field(init=False)
    storage_api_version: str = field(init=False)
    prefix: str = field(init=False)
    # What every object begins with when it is served, up to the number of its resourceVersion.
    head: bytes = field(init=False)
    # Whether an object is stored just as it is served, its resourceVersion aside.
    stored_as_served: bool = field(init=False)

    def __post_init__(self) -> None:
        group = self.group if self.storage_group is None else self.storage_group
        set_once = object.__setattr__
        set_once(self, "api_version", _join(self.group, self.version))
        set_once(self, "storage_api_version", _join(group, self.storage_version))
        set_once(self, "prefix", f"/registry/{group or 'core'}/{self.plural}/")
        head = f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}","metadata":{{"resourceVersion":"'
        set_once(self, "head", head.encode())
        same = self.to_stored is None and self.api_version == self.storage_api_version
        set_once(self, "stored_as_served", same)

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return (self.group, self.version, self.kind)

    @property
    def place(self) -> tuple[str, str, str]:
        """Group, version and plural: where it is served."""
        return (self.group, self.version, self.plural)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a table."""
        return self.column_source()

    @property
    def qualified(self) -> str:
        """The name in messages: `widgets.example.com`, or `configmaps` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def prefix_in(self, namespace: str | None) -> str:
        """What the keys of all objects of a namespace begin with; without one, of all objects."""
        return f"{self.prefix}{namespace}/" if namespace and self.namespaced else self.prefix

    def key(self, namespace: str | None, name: str) -> str:
        """Where the object of this name is stored."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"


def _join(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
