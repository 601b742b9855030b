"""A client that makes a kind known to the server when it is first used: for people in a test, and for controllers."""

from typing import Any, Self

from levelset.client.calls import Transport
from levelset.client.client import Client
from levelset.client.kinds import View
from levelset.client.requests import Served
from levelset.testing.stage import Stage

__all__ = ["IntroducingClient"]


class IntroducingClient(Client):
    """All verbs of a client; a class that the server does not know is introduced to it, whoever uses it first."""

    def __init__(self, transport: Transport, stage: Stage, **options: Any) -> None:
        super().__init__(transport, **options)
        self.stage = stage

    def _served_nowait(self, view: View[Any]) -> Served | None:
        return super()._served_nowait(view) if view.gvk in self.stage.defined else None

    async def _served(self, view: View[Any]) -> Served:
        if view.definition is not None and view.gvk not in self.stage.defined:
            await self.stage.define([view])
        return await super()._served(view)

    def _with(self, changes: dict[str, Any]) -> Self:
        made = super()._with(changes)
        made.stage = self.stage
        return made
