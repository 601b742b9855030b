"""The types of `meta.k8s.io/v1`: ObjectMeta, ListMeta, Condition, DeleteOptions and the parts of a Status."""

from datetime import datetime
from typing import Final, Literal

import msgspec

from levelset.objects.model import Model, field

__all__ = [
    "Condition",
    "DeleteOptions",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "Preconditions",
    "StatusCause",
    "StatusDetails",
]

_NO_FIELDS: Final = msgspec.Raw(b"{}")


class OwnerReference(Model):
    """One owner of an object; the garbage collector deletes the object when all owners are gone."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Model):
    """The fields that one manager owns; the field set itself stays undecoded JSON."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: datetime | None = None
    fields_type: str = ""
    fields_v1: msgspec.Raw = _NO_FIELDS
    subresource: str = ""


class ObjectMeta(Model):
    """The metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()
    self_link: str = ""


class ListMeta(Model):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: int | None = None
    self_link: str = ""


class Condition(Model):
    """One condition of a status, such as `Ready` being `True` with the reason `AllPodsUp`."""

    type: str
    status: Literal["True", "False", "Unknown"]
    # Encoded even when empty, because Kubernetes requires both: msgspec omits plain defaults, but not those of a
    # default_factory. An object that was decoded without them is still encoded without them.
    reason: str = field(default_factory=str)
    message: str = field(default_factory=str)
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class StatusCause(Model):
    """One cause of an error: the field, the reason and the message."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model):
    """The details of an error: the object, the causes, and when to retry."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Preconditions(Model):
    """The uid and resourceVersion that the object must have for a delete to be carried out."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Model):
    """The options of a delete: grace period, preconditions and propagation policy."""

    api_version: str = "v1"
    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    orphan_dependents: bool | None = None
    dry_run: tuple[str, ...] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None
