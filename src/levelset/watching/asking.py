"""What a watch asks of its server: the same kind, place and selection each time, from another version."""

from dataclasses import dataclass
from typing import Any

from levelset.client.keeping import Transform
from levelset.client.kinds import Kind
from levelset.client.paging import KeptPage
from levelset.client.reading import Reading
from levelset.client.watching import Watching
from levelset.objects.fieldselectors import FieldSelector
from levelset.objects.selectors import LabelSelector
from levelset.watching.machine import ListPage, OpenWatch

__all__ = ["Question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The objects that somebody wants to know about, and who is to be asked."""

    client: Reading
    kind: Kind[Any]
    namespace: str | None = None
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    managed_fields: bool = False
    transform: Transform | None = None
    as_kept: bool = False

    async def list(self, step: ListPage) -> KeptPage:
        """One page of the list."""
        return await self.client.list_kept(
            self.kind,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            limit=step.limit,
            continue_=step.continue_,
            resource_version=step.resource_version,
            match="NotOlderThan" if step.is_at_least else None,
            managed_fields=self.managed_fields,
            transform=self.transform,
        )

    async def open(self, step: OpenWatch, seconds: float) -> Watching:
        """The watch, once the server has agreed to it."""
        watch = self.client.watch(
            self.kind,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            resource_version=step.resource_version,
            timeout=seconds,
            send_initial_events=step.is_initial,
            managed_fields=self.managed_fields,
            transform=self.transform,
            as_kept=self.as_kept,
        )
        return await watch.__aenter__()
