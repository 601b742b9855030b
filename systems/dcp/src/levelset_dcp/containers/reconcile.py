"""The controller of Containers: finds, starts, stops and shows them, and leaves nothing behind.

Nothing here waits for the engine: what takes its time is an errand in the background, and what comes of it is known at
a later look.
"""

from dataclasses import replace
from typing import Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    Retry,
    StateMap,
    await_change,
    by_owner,
    owns,
    references,
    remembers,
    requeue,
    source,
)
from levelset.aio import timing
from levelset_dcp.containers.attending import Attendants, Charge
from levelset_dcp.containers.connections import connections_of, sync_connections
from levelset_dcp.containers.errands import Errands
from levelset_dcp.containers.known import FINAL, Change, ContainerKnown, waits
from levelset_dcp.containers.launching import AGAIN, Launcher
from levelset_dcp.containers.places import lease_of, startup_keys, system_key
from levelset_dcp.containers.plan import Step, habits_of, plan
from levelset_dcp.containers.preparing import key_of, prepare
from levelset_dcp.containers.scenes import endpoints_of, networks_named, scene_of
from levelset_dcp.containers.specs import Prepared
from levelset_dcp.containers.status import known_of, status_of
from levelset_dcp.containers.world import Containers
from levelset_dcp.endpoints import sync_endpoints
from levelset_dcp.executables.probes import check_of, pace_of
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerStatus,
    Endpoint,
    Service,
)
from levelset_dcp.named import producers, services_named
from levelset_dcp.naming import finalizer
from levelset_dcp.templates import NotYet
from levelset_machine import Check, Pace

__all__ = ["ContainerKeeper", "containers_controller"]

_SOON: Final = 2.0


def containers_controller(world: Containers, *, concurrency: int = 6) -> Controller[Container]:
    """The controller that runs Containers in this world."""
    return ContainerKeeper(world).controller(concurrency)


class ContainerKeeper:
    """Runs Containers; what it knows of them is in `states`."""

    def __init__(self, world: Containers) -> None:
        self.world = world
        self.states: StateMap[Container, str, ContainerKnown] = StateMap()
        self._errands: Errands[ContainerKnown] = Errands(self.states, _try_again)
        self._attendants = Attendants(world, self.states, self._errands)
        self._launcher = Launcher(world, self._attendants.follow)

    def controller(self, concurrency: int = 6) -> Controller[Container]:
        """The controller, with everything it follows."""
        return Controller(
            Container,
            self.reconcile,
            owns(Endpoint, metadata_only=False, indexes=[by_owner()]),
            owns(ContainerNetworkConnection, metadata_only=False, indexes=[by_owner()]),
            references(Service, services_named),
            references(ContainerNetwork, networks_named),
            remembers(self.states),
            source(self._attendants.attend_all),
            cleanup=self.clean_up,
            finalizer=finalizer("container-reconciler"),
            name="dcp-containers",
            concurrency=concurrency,
        )

    async def reconcile(self, container: Container, ctx: Context) -> Action:
        """Looks at a Container, and does what is next."""
        self._require_open(container)
        known = await self._advance(container, self._known(container), ctx)
        waiting = await self._accompany(container, known, ctx)
        await self._show(container, known, ctx)
        if known.again_at > timing.now():
            return requeue(seconds=known.again_at - timing.now())
        return requeue(seconds=_SOON) if waiting or _is_stuck(known) else await_change()

    async def clean_up(self, container: Container, ctx: Context) -> Action | None:
        """Removes the container, unless it is to outlive its object, and everything that belongs to it."""
        self._require_open(container)
        known, habits = self._known(container), habits_of(container.spec)
        if self._errands.is_busy(ctx.ref):
            return requeue(seconds=AGAIN)  # what is being started is removed when it is there
        if habits.ends and not known.is_gone and not self._is_hopeless(known):
            if known.state in ("Running", "Paused"):
                known = replace(known, state="Stopping", is_stopping=True)
                self.states.keep(ctx.ref, known)
            await self._accompany(container, known, ctx)
            await self._show(container, known, ctx)
            if timing.now() >= known.again_at:
                found = known.container_id
                self._errands.start(ctx, known.uid, "remove", lambda: self._launcher.remove(container, found))
            return requeue(seconds=max(known.again_at - timing.now(), AGAIN))
        await sync_endpoints(ctx, container, ())
        await sync_connections(ctx, container, ())
        await self._forget(container, ctx)
        return None

    async def _advance(self, container: Container, known: ContainerKnown, ctx: Context) -> ContainerKnown:
        """Takes the next step, unless one is under way or has to wait."""
        step = plan(container, known)
        if step == "rest" or self._errands.is_busy(ctx.ref) or timing.now() < known.again_at:
            return known
        try:
            known = await self._step(step, container, known, ctx)
        except NotYet as error:
            state = "Starting" if step == "start" else known.state
            known = replace(known, state=state, message=str(error))
        self.states.keep(ctx.ref, known)
        return known

    async def _step(self, step: Step, container: Container, known: ContainerKnown, ctx: Context) -> ContainerKnown:
        """Begins what takes its time, and says what is known from now on; raises NotYet."""
        uid = known.uid
        if step == "find":
            key: str | None = None
            if habits_of(container.spec).finds and not container.spec.stop:
                effective, key = await key_of(container, ctx)
                known = replace(known, key=key, env=effective.shown, args=effective.args)
            self._errands.start(ctx, uid, "find", lambda: self._launcher.find(container, key))
        elif step == "start":
            prepared = await prepare(container, ctx)
            known = self._begin(container, known, prepared)
            self._errands.start(ctx, uid, "start", lambda: self._launcher.start(container, prepared, self._teller(ctx)))
        elif step == "stop":
            known = replace(known, state="Stopping", is_stopping=True, message="")
            self._errands.start(ctx, uid, "stop", lambda: self._launcher.stop(known.container_id))
        else:
            now, words = self.world.now(), "it was stopped before it was started"
            known = replace(known, state="FailedToStart", started_at=now, finished_at=now, message=words)
        return known

    def _begin(self, container: Container, known: ContainerKnown, prepared: Prepared) -> ContainerKnown:
        files = [self.world.logs.path(key) for key in startup_keys(known.uid)]
        return replace(
            known,
            state="Building" if container.spec.build is not None else "Starting",
            message="",
            env=prepared.effective.shown,
            args=prepared.effective.args,
            key=prepared.key,
            files=(str(files[0] or ""), str(files[1] or "")),
        )

    async def _accompany(self, container: Container, known: ContainerKnown, ctx: Context) -> bool:
        """What belongs to a container while it runs, and only then; whether something has to wait."""
        uid, is_there = known.uid, bool(known.container_id) and known.state not in FINAL
        charge = self._attendants.attend(ctx.ref, uid, known.container_id) if is_there else None
        if known.is_in_limbo:
            return False
        wanted = connections_of(container, known.container_id) if is_there else ()
        await sync_connections(ctx, container, wanted)
        if known.state != "Running" or charge is None:
            await self._attendants.hush(uid)
            await sync_endpoints(ctx, container, ())
            return False
        endpoints = endpoints_of(container, known.ports)
        await sync_endpoints(ctx, container, endpoints)
        return self._ask(container, charge, ctx) or len(endpoints) < len(producers(container))

    def _ask(self, container: Container, charge: Charge, ctx: Context) -> bool:
        """Has the probes made whose templates can be evaluated; whether there are others."""
        probes = container.spec.health_probes
        if not probes:
            return False
        scene, ready = scene_of(container, ctx.cached), dict[str, tuple[Check, Pace]]()
        for probe in probes:
            try:
                ready[probe.name] = (check_of(probe, scene, self.world.ambient), pace_of(probe))
            except NotYet:
                continue
        self._attendants.ask(charge, ready)
        return len(ready) < len(probes)

    async def _show(self, container: Container, known: ContainerKnown, ctx: Context) -> None:
        before = container.status or ContainerStatus()
        status = status_of(container, known, self._networks(container, known, ctx), ctx.now())
        await ctx.set_status(container, status)
        if (status.state, status.message) != (before.state, before.message):
            self._tell(container, known)
        if status.state == before.state:
            return
        words = known.message or f"{container.spec.image or container.name} is {status.state}"
        ctx.record(container, status.state or "Pending", words, warning=known.state in (*FINAL, "RuntimeUnhealthy"))
        if known.state in FINAL:
            self.world.gone(known.uid)

    def _networks(self, container: Container, known: ContainerKnown, ctx: Context) -> tuple[str, ...]:
        """The names of the ContainerNetworks that it wants to be in, and is in; as before until it was looked at."""
        if not known.is_seen and known.state not in FINAL:
            return container.status.networks if container.status is not None else ()
        found: list[str] = []
        for one in container.spec.networks or ():
            network = ctx.cached(Ref(ContainerNetwork, one.name))
            status = None if network is None else network.status
            if status is not None and not {status.id, status.network_name}.isdisjoint(known.attached):
                found.append(one.name)
        return tuple(found)

    def _is_hopeless(self, known: ContainerKnown) -> bool:
        """Whether there is nobody to ask for the removal of something that most likely was never made."""
        return self.world.engine is None or (known.state == "RuntimeUnhealthy" and not known.container_id)

    def _known(self, container: Container) -> ContainerKnown:
        known = self.states.borrow(container.ref)
        if known is None or known.uid != container.metadata.uid:
            known = known_of(container)
            self.states.keep(container.ref, known)
        return known

    def _teller(self, ctx: Context) -> "_Teller":
        return _Teller(self._errands, ctx.ref, ctx.object.metadata.uid)

    async def _forget(self, container: Container, ctx: Context) -> None:
        """Lets go of everything."""
        uid = container.metadata.uid
        await self._attendants.release(uid)
        self._errands.forget(ctx.ref)
        self.world.gone(uid)
        for key in (*startup_keys(uid), system_key(uid), f"{uid}_monitor"):
            self.world.logs.remove(key)
        if habits_of(container.spec).finds:
            await self.world.records.release(lease_of(container))

    def _tell(self, container: Container, known: ContainerKnown) -> None:
        """Writes into the log of the Container itself what became of it."""
        sink = self.world.logs.open(system_key(known.uid))
        made = f", container {known.container_id[:12]}" if known.container_id else ""
        code = f", exit code {known.exit_code}" if known.exit_code is not None else ""
        words = f": {known.message}" if known.message else ""
        sink.write(f"{container.name} is {known.state}{made}{code}{words}\n".encode())
        sink.close()

    def _require_open(self, container: Container) -> None:
        if not self._attendants.watching.is_open:
            raise Retry(f"{container.ref}: nobody follows the engine yet", seconds=0.5)


class _Teller:
    """Tells what is found out on the way."""

    def __init__(self, errands: Errands[ContainerKnown], ref: Ref[Container], uid: str) -> None:
        self._told = errands, ref, uid

    def __call__(self, change: Change) -> None:
        errands, ref, uid = self._told
        errands.tell(ref, uid, change)


def _is_stuck(known: ContainerKnown) -> bool:
    """Whether it waits for something that may come without anybody telling."""
    return known.state in ("Starting", "NotFound", "Pending") and bool(known.message)


def _try_again(words: str) -> Change:
    return waits(words, timing.now() + AGAIN)
