"""One resource in one version: its names, scope, verbs, schema, and the rules of its strategy.

A `ServedResource` is a value. Built-in kinds are a table of them (`registry/builtin/kind_table.py`); a
CustomResourceDefinition becomes one per version (`registry/crd/definitions.py`). Schema and shape are compiled on first
use.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec.structs import force_setattr

from levelset.apiserver.schema import Compiled
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain
from levelset.patch import ANYTHING, Shape

__all__ = [
    "ALL_VERBS",
    "CheckAllocation",
    "Column",
    "MetadataChecks",
    "Object",
    "Rules",
    "ScalePaths",
    "ServedResource",
]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

# The built-in groups whose objects contain patterns or expressions.
_GROUPS_WITH_PROGRAMS = frozenset({"admissionregistration.k8s.io", "apiextensions.k8s.io"})

# A whole object as a JSON tree; the code that decoded it may modify it.
Object = dict[str, Any]


class Column(msgspec.Struct, frozen=True):
    """A printer column; `path` is a JSONPath, or None for a column that the printer of a built-in kind fills."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""
    path: str | None = None


class ScalePaths(msgspec.Struct, frozen=True, eq=False):
    """The JSONPaths of the three values of the `scale` subresource, such as `.spec.replicas`."""

    spec: str
    status: str
    selector: str | None = None


Dropped = tuple[dict[str, Any], str, Any]
"""A map, the name of the member that it had, and the value."""


class MetadataChecks(NamedTuple):
    """How often a kind checks metadata beside what is checked of all objects: a cause is reported each time."""

    # All of the metadata of a new object, and this often again for an update: upstream's ValidateObjectMeta.
    own: int = 0
    # The metadata of an update, with what is immutable: upstream's ValidateObjectMetaUpdate.
    update: int = 1
    # Whether the kind checks the metadata of a new object, or leaves them to what is checked of all valid ones.
    create: bool = True


class CheckAllocation(Protocol):
    """Why what a new object requests cannot be allocated, given the old one of an update."""

    def __call__(self, new: Object, old: Object | None, *, dry_run: bool) -> list[Cause]:
        """The causes; a dry run allocates nothing."""
        ...


class Rules(msgspec.Struct, frozen=True, eq=False):
    """The strategy of a kind beyond its schema; the defaults are those of a custom resource.

    `default` sets defaults in the client's object, so they belong to its field manager. The `prepare_` functions set
    the fields of the server: they modify the new object in place, given the old one. `admit_create` does what admission
    plugins do for a new object, before admission webhooks, and again after one has changed it. `validate` returns the
    causes why the new object is invalid (old is None on create). None of them may retain its arguments.
    """

    generation: bool = True
    # Whether updates increment the generation, and the metadata whose changes do, too.
    increments: bool = True
    increments_by: tuple[str, ...] = ()
    # Whether upstream compares the content by its memory, in which an empty list or map differs from an absent one.
    increments_by_memory: bool = False
    # Lists with quantities whose owner changes with them as a whole: upstream compares quantities by their memory, too,
    # in which 1024Mi differs from 1Gi.
    quantity_lists: tuple[str, ...] = ()
    # Whether what is disabled counts as a change, too.
    increments_by_disabled: bool = False
    unconditional_update: bool = False
    create_on_update: bool = False
    name_check: Callable[[str], list[str]] = check_dns1123_subdomain
    # Whether a `generateName` must be the beginning of a valid name, even beside a name.
    names_prefixes: bool = True
    default: Callable[[Object], None] | None = None
    # Sets the times that default to that of the write.
    default_times: Callable[[Object, str], None] | None = None
    admit_create: Callable[[Object], None] | None = None
    prepare_create: Callable[[Object], None] | None = None
    # What Go writes into an update for members that are absent; their writer owns them.
    complete_update: Callable[[Object], None] | None = None
    # What the server sets in an update, and what it allocates for it: no manager owns that.
    prepare_update: Callable[[Object, Object], None] | None = None
    allocate_update: Callable[[Object, Object], None] | None = None
    # Why what an object requests cannot be allocated: then nothing else of it is validated. May raise ApiError (500).
    check_allocation: CheckAllocation | None = None
    # Takes fields out of a new object that are off by default; the writer owns them nevertheless, as upstream.
    drop_disabled: Callable[[Object], None] | None = None
    # What an update through a subresource leaves as it is, though its writer owns what it sent.
    preserve: Callable[[Object, Object], None] | None = None
    # Completes an object that is sent to `status`, of which only the metadata and the status count, as decoding does.
    complete_sent: Callable[[Object], None] | None = None
    # For an update through a subresource, which is named; the last argument is the time of the write.
    prepare_part: Callable[[Object, Object, str, str], None] | None = None
    # Records the user who creates an object in it.
    record_user: Callable[[Object, Any], None] | None = None
    # When deletion begins (deletionTimestamp is set): may add finalizers, conditions, a phase.
    prepare_delete: Callable[[Object], None] | None = None
    # Why the objects of these names cannot be deleted one by one; in a collection they are, as upstream.
    undeletable: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    # Whether a terminating object stays although it has no finalizers (a namespace with `spec.finalizers`).
    held: Callable[[Object], bool] | None = None
    validate: Callable[[Object, Object | None], list[Cause]] | None = None
    # The causes why an update through a subresource, which is named, is invalid; without it, `validate` is called.
    validate_part: Callable[[Object, Object, str], list[Cause]] | None = None
    # What to warn the client of in an object that is accepted, given the old one of an update.
    warnings: Callable[[Object, Object | None], Iterable[str]] | None = None
    # What to warn the client of in a new object before the rules of its kind are applied, even if it is refused.
    early_warnings: Callable[[Object], Iterable[str]] | None = None
    # What of the metadata an update of the status leaves as it is: everything, what a client writes there, the labels,
    # or nothing.
    preserved_by_status: Literal["metadata", "content", "labels", ""] = "metadata"
    # Whether the first write to a new object stores it again even if it changes nothing: upstream, what is created is
    # not encoded as what is read.
    stored_again: Callable[[Object], bool] | None = None
    # Members, beside the status, that writers of the object do not own.
    unowned: tuple[str, ...] = ()
    # Whether the kind itself decides what remains of the status of a new object; of others, nothing does.
    status_on_create: bool = False
    # Whether `validate` has all rules of the kind, so that the schema only tells types and unknown fields.
    complete: bool = False
    # The CEL validation rules of a custom resource; they get the causes found so far.
    expressions: Callable[[Object, Object | None, list[Cause]], list[Cause]] | None = None
    graceful: bool = False
    # Whether a deletion that says nothing else leaves the dependents alone, for the oldest kinds.
    orphans: bool = False
    # Whether other objects may depend on one of this kind: the deletion of one that cannot have any never waits.
    has_dependents: bool = True
    # Whether the kind's own checks of metadata refuse finalizers without a domain.
    finalizers_need_slash: bool = False
    metadata_checks: MetadataChecks = MetadataChecks()
    # Those of an update through `status` or `approval`.
    part_metadata_checks: MetadataChecks = MetadataChecks()


def _no_schema() -> Compiled | None:
    return None


def _any_shape() -> Shape:
    return ANYTHING


def _no_columns() -> tuple[Column, ...]:
    return ()


class ServedResource(msgspec.Struct, frozen=True, eq=False):
    """One resource in one version, with everything that the verbs have to know about it."""

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
    # The schema as written in the CRD.
    schema_source: Any = None
    shape: Callable[[], Shape] = _any_shape
    column_source: Callable[[], tuple[Column, ...]] = _no_columns
    selectable: tuple[str, ...] = ()
    rules: Rules = msgspec.field(default_factory=Rules)
    deprecation: str | None = None
    # The CRD is being deleted: creates get 403, everything else is still served.
    terminating: bool = False
    logs: Callable[..., Any] | None = None
    # Two resources that are stored as one (the two kinds of events) have the same storage group.
    storage_group: str | None = None
    # In-place conversions between stored and served objects, for a group whose fields have other names.
    from_stored: Callable[[Object], None] | None = None
    to_stored: Callable[[Object], None] | None = None
    # Converts an object of any version of a custom kind to an apiVersion; None if only the apiVersion differs.
    convert: Callable[[Object, str], Object] | None = None
    # Whether a webhook converts, so that reads and writes may have to be awaited; see `registry/conversion_webhook.py`.
    converts_by_webhook: bool = False
    # The schema of the storage version, if it is another version.
    storage_schema: Callable[[], Compiled | None] = _no_schema
    # Objects written before this revision may not conform to the current schema; see `registry/conversion.py`.
    since: int = 0
    # The following are set from the others, whatever is given.
    api_version: str = ""
    storage_api_version: str = ""
    prefix: str = ""
    # The first bytes of every served object, up to the value of its resourceVersion.
    head: bytes = b""
    # The first bytes of every stored object, up to its metadata.
    stored_head: bytes = b""
    # Whether the stored bytes are the served ones, except for the resourceVersion.
    stored_as_served: bool = False
    # Whether patterns or expressions validate its objects, from their schema or in themselves: those steps are counted.
    # The rules of all other kinds are known and cheap.
    has_programs: bool = False

    def __post_init__(self) -> None:
        group = self.group if self.storage_group is None else self.storage_group
        set_once = force_setattr
        set_once(self, "api_version", _join(self.group, self.version))
        set_once(self, "storage_api_version", _join(group, self.storage_version))
        set_once(self, "prefix", f"/registry/{group or 'core'}/{self.plural}/")
        head = '{"apiVersion":"%s","kind":"%s","metadata":{'
        set_once(self, "head", (head % (self.api_version, self.kind) + '"resourceVersion":"').encode())
        set_once(self, "stored_head", (head % (self.storage_api_version, self.kind)).encode())
        same = self.to_stored is None and self.api_version == self.storage_api_version
        set_once(self, "stored_as_served", same)
        set_once(self, "has_programs", self.custom or self.group in _GROUPS_WITH_PROGRAMS)

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Group, version and kind."""
        return (self.group, self.version, self.kind)

    @property
    def gvr(self) -> tuple[str, str, str]:
        """Group, version and resource (plural)."""
        return (self.group, self.version, self.plural)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The printer columns."""
        return self.column_source()

    @property
    def qualified(self) -> str:
        """The name in messages: `widgets.example.com`, or `configmaps` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def prefix_in(self, namespace: str | None) -> str:
        """Returns the storage prefix of the objects of a namespace; without one, of all objects."""
        return f"{self.prefix}{namespace}/" if namespace and self.namespaced else self.prefix

    def key(self, namespace: str | None, name: str) -> str:
        """Returns the storage key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"


def _join(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
