"""The metadata that every object has, and the small objects that the API itself is made of."""

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
    """One owner of an object; when all owners are gone, the object is collected."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Model):
    """Which fields one manager owns; the fields themselves stay undecoded JSON."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: datetime | None = None
    fields_type: str = ""
    fields_v1: msgspec.Raw = _NO_FIELDS
    subresource: str = ""


class ObjectMeta(Model):
    """What every object carries beside its own content."""

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
    """What a list carries beside its items."""

    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: int | None = None
    self_link: str = ""


class Condition(Model):
    """One aspect of an object's state: `Ready` is `True` because of `AllPodsUp`, since then."""

    type: str
    status: Literal["True", "False", "Unknown"]
    # Written even when they are empty, for Kubernetes requires both: what a function makes is not taken for a default
    # that may be left out. An object that was read without them is still written without them.
    reason: str = field(default_factory=str)
    message: str = field(default_factory=str)
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class StatusCause(Model):
    """One reason for a refusal: the field, the kind of wrong, and the words."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model):
    """What a refusal is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Preconditions(Model):
    """What must still hold for a delete to happen."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Model):
    """How to delete: now or gracefully, with, before or without the children."""

    api_version: str = "v1"
    kind: str = "DeleteOptions"
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    orphan_dependents: bool | None = None
    dry_run: tuple[str, ...] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None
