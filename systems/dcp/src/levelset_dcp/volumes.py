"""The controller of ContainerVolumes: creates volumes, and removes those that are not persistent."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from levelset import Action, Context, Controller, StateMap, await_change, remembers, replace, requeue, set_condition
from levelset.aio import timing
from levelset_dcp.containers.background_tasks import BackgroundTasks, Change
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.containers.orphan_cleanup import is_orphaned
from levelset_dcp.engines.errors import EngineNotFound, ObjectInUse, RuntimeNotHealthy
from levelset_dcp.kinds import ContainerVolume, ContainerVolumeStatus
from levelset_dcp.names import finalizer, labels_of
from levelset_dcp.workloads.workload_status import write_state

__all__ = ["ObservedVolume", "Step", "VolumeReconciler", "plan", "status_of", "volumes_controller"]

Step = Literal["none", "create", "remove", "release"]
"""Do nothing now; create the volume; remove it; let its object go."""
_RETRY_DELAY: Final = 5.0


def volumes_controller(host: ContainerHost) -> Controller[ContainerVolume]:
    """The controller of ContainerVolumes."""
    return VolumeReconciler(host).controller()


class ObservedVolume(Struct, frozen=True, kw_only=True):
    """The observed state of a volume; pure."""

    uid: str
    state: str = "Pending"
    message: str = ""
    retry_at: float = 0.0
    """The loop time of the next attempt."""
    is_removed: bool = False


def plan(volume: ContainerVolume, observed: ObservedVolume, now: float) -> Step:
    """The next step at a loop time; pure."""
    if volume.metadata.deletion_timestamp is not None:
        if volume.spec.persistent or observed.is_removed:
            return "release"
        return "remove" if now >= observed.retry_at else "none"
    return "create" if observed.state != "Ready" and now >= observed.retry_at else "none"


class VolumeReconciler:
    """Reconciles volumes; their observed state is in `states`."""

    def __init__(self, host: ContainerHost) -> None:
        self.host = host
        self.states: StateMap[ContainerVolume, str, ObservedVolume] = StateMap()
        self._background: BackgroundTasks[ObservedVolume] = BackgroundTasks(self.states, _failed)

    def controller(self) -> Controller[ContainerVolume]:
        """The controller with its watches and sources."""
        return Controller(
            ContainerVolume,
            self.reconcile,
            remembers(self.states),
            cleanup=self.clean_up,
            finalizer=finalizer("volume-reconciler"),
            name="dcp-volumes",
        )

    async def reconcile(self, volume: ContainerVolume, ctx: Context) -> Action:
        """Creates the volume, and writes its status."""
        observed = self._observed(volume)
        self._act(plan(volume, observed, timing.now()), volume, observed, ctx)
        await self._write_status(volume, observed, ctx)
        return await_change() if observed.state == "Ready" else _requeue_later(observed)

    async def clean_up(self, volume: ContainerVolume, ctx: Context) -> Action | None:
        """Removes the volume, unless it is persistent."""
        observed = self._observed(volume)
        step = plan(volume, observed, timing.now())
        self._act(step, volume, observed, ctx)
        if step == "release":
            return None
        await self._write_status(volume, observed, ctx)
        return _requeue_later(observed)

    def _act(self, step: Step, volume: ContainerVolume, observed: ObservedVolume, ctx: Context) -> None:
        """Starts the background task of a step."""
        match step:
            case "create":
                self._background.start(ctx, observed.uid, "create volume", lambda: self._create(volume))
            case "remove":
                self._background.start(ctx, observed.uid, "remove volume", lambda: self._remove(volume))
            case "release":
                self._background.forget(ctx.ref)
            case _:
                pass

    async def _create(self, volume: ContainerVolume) -> Change[ObservedVolume]:
        try:
            engine = await self.host.healthy_engine()
            if self.host.orphans_cleaned is not None:
                await self.host.orphans_cleaned.wait()  # which would remove a volume that a killed session has left
            labels = labels_of(volume, self.host.creator, is_persistent=volume.spec.persistent)
            made = await engine.create_volume(volume.spec.name, labels=labels)
            if is_orphaned(made):
                # It would go with the next session, whatever this one declares: its labels cannot be changed.
                await engine.remove_volume(made.name)
                await engine.create_volume(made.name, labels=labels)
        except RuntimeNotHealthy as error:
            return _unhealthy(str(error))
        except ObjectInUse as error:
            return _failed(f"a killed session has left this volume, and it is still in use: {error}")
        return lambda observed: replace(observed, state="Ready", message="", retry_at=0.0)

    async def _remove(self, volume: ContainerVolume) -> Change[ObservedVolume]:
        try:
            await (await self.host.healthy_engine()).remove_volume(volume.spec.name)
        except EngineNotFound:
            pass  # removed already
        except RuntimeNotHealthy as error:
            return _unhealthy(str(error))
        return lambda observed: replace(observed, is_removed=True, message="", retry_at=0.0)

    async def _write_status(self, volume: ContainerVolume, observed: ObservedVolume, ctx: Context) -> None:
        status = status_of(volume, observed, ctx.now())
        message = observed.message or f"volume {volume.spec.name} is {status.state}"
        await write_state(ctx, volume, status, message, is_warning=status.state == "RuntimeUnhealthy")

    def _observed(self, volume: ContainerVolume) -> ObservedVolume:
        return self._background.observed(volume, lambda: ObservedVolume(uid=volume.metadata.uid))


def status_of(volume: ContainerVolume, observed: ObservedVolume, now: datetime) -> ContainerVolumeStatus:
    """The new status of a volume; pure."""
    before = volume.status or ContainerVolumeStatus()
    conditions = set_condition(
        before.conditions,
        "Ready",
        observed.state == "Ready",
        now=now,
        reason=observed.state,
        message=observed.message or f"volume {volume.spec.name} is {observed.state}",
        observed_generation=volume.metadata.generation,
    )
    return replace(
        before,
        state=observed.state,
        message=observed.message,
        conditions=conditions,
        observed_generation=volume.metadata.generation,
    )


def _unhealthy(message: str) -> Change[ObservedVolume]:
    retry_at = timing.now() + _RETRY_DELAY
    return lambda observed: replace(observed, state="RuntimeUnhealthy", message=message, retry_at=retry_at)


def _failed(message: str) -> Change[ObservedVolume]:
    retry_at = timing.now() + _RETRY_DELAY
    return lambda observed: replace(observed, state="Pending", message=message, retry_at=retry_at)


def _requeue_later(observed: ObservedVolume) -> Action:
    return requeue(seconds=max(_RETRY_DELAY, observed.retry_at - timing.now()))
