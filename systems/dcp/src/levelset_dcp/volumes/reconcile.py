"""The controller of ContainerVolumes: makes them, and removes those that are not to stay."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from levelset import Action, Context, Controller, StateMap, await_change, remembers, requeue, set_condition
from levelset import replace as changed
from levelset.aio import timing
from levelset_dcp.containers.errands import Change, Errands
from levelset_dcp.containers.labels import labels_of
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import EngineNotFound, RuntimeNotHealthy
from levelset_dcp.kinds import ContainerVolume, ContainerVolumeStatus
from levelset_dcp.naming import finalizer

__all__ = ["VolumeKeeper", "status_of", "volumes_controller"]

_AGAIN: Final = 5.0


def volumes_controller(world: Containers) -> Controller[ContainerVolume]:
    """The controller that keeps volumes in this world."""
    return VolumeKeeper(world).controller()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of a volume; pure."""

    uid: str
    state: str = "Pending"
    message: str = ""
    again_at: float = 0.0
    """Not before that time of the loop's clock is it tried again."""
    is_gone: bool = False


class VolumeKeeper:
    """Makes and removes volumes."""

    def __init__(self, world: Containers) -> None:
        self.world = world
        self.states: StateMap[ContainerVolume, str, _Known] = StateMap()
        self._errands: Errands[_Known] = Errands(self.states, _failed)

    def controller(self) -> Controller[ContainerVolume]:
        """The controller, with everything it follows."""
        return Controller(
            ContainerVolume,
            self.reconcile,
            remembers(self.states),
            cleanup=self.clean_up,
            finalizer=finalizer("volume-reconciler"),
            name="dcp-volumes",
        )

    async def reconcile(self, volume: ContainerVolume, ctx: Context) -> Action:
        """Makes the volume, unless it is there."""
        known = self._known(volume)
        if known.state != "Ready" and timing.now() >= known.again_at:
            self._errands.start(ctx, known.uid, "make volume", lambda: self._make(volume))
        await self._show(volume, known, ctx)
        return await_change() if known.state == "Ready" else _later(known)

    async def clean_up(self, volume: ContainerVolume, ctx: Context) -> Action | None:
        """Removes the volume if it is not to stay."""
        known = self._known(volume)
        if volume.spec.persistent or known.is_gone:
            self._errands.forget(ctx.ref)
            return None
        if timing.now() >= known.again_at:
            self._errands.start(ctx, known.uid, "remove volume", lambda: self._remove(volume))
        await self._show(volume, known, ctx)
        return _later(known)

    async def _make(self, volume: ContainerVolume) -> Change[_Known]:
        try:
            engine = await self.world.healthy_engine()
            labels = labels_of(volume, self.world.creator, lasts=volume.spec.persistent)
            await engine.create_volume(volume.spec.name, labels=labels)
        except RuntimeNotHealthy as error:
            return _unhealthy(str(error))
        return lambda known: replace(known, state="Ready", message="", again_at=0.0)

    async def _remove(self, volume: ContainerVolume) -> Change[_Known]:
        try:
            await (await self.world.healthy_engine()).remove_volume(volume.spec.name)
        except EngineNotFound:
            pass  # somebody was faster
        except RuntimeNotHealthy as error:
            return _unhealthy(str(error))
        return lambda known: replace(known, is_gone=True, message="", again_at=0.0)

    async def _show(self, volume: ContainerVolume, known: _Known, ctx: Context) -> None:
        before = volume.status or ContainerVolumeStatus()
        status = status_of(volume, known, ctx.now())
        await ctx.set_status(volume, status)
        if status.state != before.state:
            words = known.message or f"volume {volume.spec.name} is {status.state}"
            ctx.record(volume, status.state or "Pending", words, warning=status.state == "RuntimeUnhealthy")

    def _known(self, volume: ContainerVolume) -> _Known:
        known = self.states.borrow(volume.ref)
        if known is None or known.uid != volume.metadata.uid:
            known = _Known(uid=volume.metadata.uid)
            self.states.keep(volume.ref, known)
        return known


def status_of(volume: ContainerVolume, known: _Known, now: datetime) -> ContainerVolumeStatus:
    """How the volume is now; pure."""
    before = volume.status or ContainerVolumeStatus()
    conditions = set_condition(
        before.conditions,
        "Ready",
        known.state == "Ready",
        now=now,
        reason=known.state,
        message=known.message or f"volume {volume.spec.name} is {known.state}",
        observed_generation=volume.metadata.generation,
    )
    return changed(
        before,
        state=known.state,
        message=known.message,
        conditions=conditions,
        observed_generation=volume.metadata.generation,
    )


def _unhealthy(words: str) -> Change[_Known]:
    again = timing.now() + _AGAIN
    return lambda known: replace(known, state="RuntimeUnhealthy", message=words, again_at=again)


def _failed(words: str) -> Change[_Known]:
    again = timing.now() + _AGAIN
    return lambda known: replace(known, state="Pending", message=words, again_at=again)


def _later(known: _Known) -> Action:
    return requeue(seconds=max(_AGAIN, known.again_at - timing.now()))
