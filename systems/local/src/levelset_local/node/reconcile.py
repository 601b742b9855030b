"""Looks at a Pod of this node and takes the next step: binds it, starts, stops and starts again, and says how it is."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from levelset import (
    Action,
    Conflict,
    Context,
    Controller,
    MergePatch,
    NotFound,
    Ref,
    Retry,
    StateMap,
    any_of,
    by,
    references,
    remembers,
    requeue,
    source,
    watches,
)
from levelset.kinds import core_v1
from levelset.kinds.core_v1 import ConfigMap, Pod, PodStatus, Secret, Service
from levelset.runtime.controller import SELF_CHANGES
from levelset_local.node.agent import Node
from levelset_local.node.attending import Attendants
from levelset_local.node.events import ignored_wishes, status_news
from levelset_local.node.housing import Housing
from levelset_local.node.known import PodKnown
from levelset_local.node.launching import Launcher, Surroundings
from levelset_local.node.needs import Found, config_maps, secrets
from levelset_local.node.plan import Plan, Remove, Start, Stop, plan
from levelset_local.node.pod_conditions import unscheduled
from levelset_local.node.recovering import recovered
from levelset_local.node.statuses import pod_status
from levelset_machine import NoAddress

__all__ = ["PodKeeper", "pods_controller"]

_CORDONED: Final = "0/1 nodes are available: 1 node(s) were unschedulable."
_MOUNT_AGAIN: Final = 30.0
_NO_ADDRESS: Final = 10.0
_SERVER: Final = Ref(Service, "kubernetes", "default")
_TERMINAL: Final = ("Succeeded", "Failed")


def pods_controller(node: Node, *, concurrency: int = 8) -> Controller[Pod]:
    """The controller that runs the Pods of a node as processes."""
    return PodKeeper(node).controller(concurrency)


class PodKeeper:
    """Runs the Pods of a node; what it knows of them is in `states`, by the Pod and by its uid."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.states: StateMap[Pod, str, PodKnown] = StateMap()
        self._housing = Housing(node.addresses)
        self._attendants = Attendants(node, self.states, self._housing)
        self._launcher = Launcher(node, self._attendants)

    def controller(self, concurrency: int = 8) -> Controller[Pod]:
        """The controller, with everything it follows."""
        return Controller(
            Pod,
            self.reconcile,
            references(ConfigMap, config_maps),
            references(Secret, secrets),
            watches(Service, to=_nobody),  # they are read when a container starts
            references(core_v1.Node, self._awaited, when=by.value(_is_cordoned)),
            remembers(self.states),
            source(self._attendants.attend_all),
            gone=self.gone,
            when=any_of(SELF_CHANGES, by.value(_said_by_others)),
            name="node-agent",
            concurrency=concurrency,
        )

    async def reconcile(self, pod: Pod, ctx: Context) -> Action | None:
        """Looks at a Pod, and does what is next."""
        if not self._is_ours(pod):
            return None
        if not self._attendants.is_open:
            raise Retry(f"{pod.ref}: nobody can look after its processes yet", seconds=0.5)
        self._bury_namesakes(pod)
        if not pod.spec.node_name:
            if self._is_closed(ctx):
                await _wait_for_place(pod, ctx)
                return None
            try:
                pod = await self._bind(pod, ctx)
            except NotFound:
                return None  # it is gone meanwhile
        known = self._known(pod)
        is_terminal = pod.status is not None and pod.status.phase in _TERMINAL
        if is_terminal and pod.metadata.deletion_timestamp is None and not known.living:
            return None
        around = await self._look_around(pod, ctx)
        known = self._launcher.take_over(around, known, ctx.now())
        known = self._place(pod, known, ctx)
        self._keep(pod, known)  # whoever looks after it may have something to tell from now on
        known = await self._launcher.mount(around, known, ctx)
        decided = plan(pod, known, ctx.now(), self.node.restarts)
        known = await self._carry_out(around, replace(known, failure=decided.failure or known.failure), decided, ctx)
        return await self._finish(pod, known, decided, ctx)

    async def gone(self, ref: Ref[Pod], _: Context) -> None:
        """Ends and removes what is left of a Pod that is no longer there."""
        if not self._attendants.is_open:
            raise Retry(f"{ref}: nobody can end its processes yet", seconds=0.5)
        for known in self.node.records.of_name(ref.namespace, ref.name):
            self._attendants.bury(known)

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a Pod runs here, or nobody else will say where it runs."""
        spec = pod.spec
        if spec.node_name:
            return spec.node_name == self.node.name
        is_free = not spec.scheduling_gates and spec.scheduler_name in (None, "", "default-scheduler")
        return is_free and pod.metadata.deletion_timestamp is None

    def _bury_namesakes(self, pod: Pod) -> None:
        """One that had the same name was removed while nobody looked."""
        for known in self.node.records.of_name(pod.namespace, pod.name):
            if known.uid != pod.metadata.uid:
                self._attendants.bury(known)

    def _awaited(self, pod: Pod) -> Iterable[Ref[core_v1.Node]]:
        """What a Pod without a place waits for."""
        return () if pod.spec.node_name else (Ref(core_v1.Node, self.node.name),)

    def _is_closed(self, ctx: Context) -> bool:
        """Whether somebody has cordoned the node."""
        found = ctx.cached(Ref(core_v1.Node, self.node.name))
        return found is not None and _is_cordoned(found)

    async def _bind(self, pod: Pod, ctx: Context) -> Pod:
        patch = MergePatch({"metadata": {"uid": pod.metadata.uid}, "spec": {"nodeName": self.node.name}})
        bound = await ctx.patch(pod.ref, patch)
        ctx.record(pod, "Scheduled", f"Successfully assigned {pod.namespace}/{pod.name} to {self.node.name}")
        ignored = ignored_wishes(pod)
        if ignored:
            message = f"{ignored}: not looked at, as there is no other node than {self.node.name}"
            ctx.record(pod, "SchedulingWishesIgnored", message, warning=True)
        return bound

    def _known(self, pod: Pod) -> PodKnown:
        known = self.states.borrow(pod.ref)
        if known is not None and known.uid == pod.metadata.uid:
            return known
        return recovered(pod, self.node.records.find(pod.metadata.uid))

    async def _look_around(self, pod: Pod, ctx: Context) -> Surroundings:
        maps = ((ref.name, ctx.cached(ref)) for ref in config_maps(pod))
        keys = ((ref.name, ctx.cached(ref)) for ref in secrets(pod))
        found = Found(
            {name: one for name, one in maps if one is not None}, {name: one for name, one in keys if one is not None}
        )
        links: list[Service] = []
        if pod.spec.enable_service_links is not False:
            links += await ctx.list(Service, namespace=pod.namespace)
        server = ctx.cached(_SERVER)  # which everybody is told of
        if server is not None and server not in links:
            links.append(server)
        return Surroundings(pod, found, tuple(links))

    def _place(self, pod: Pod, known: PodKnown, ctx: Context) -> PodKnown:
        """Gives a Pod its address and its beginning; Retry if no address is left."""
        if pod.spec.host_network:
            address = self.node.host
        elif known.living and known.address:
            address = self._housing.keep(known.uid, known.address)
        else:
            try:
                address = self._housing.address(known.uid, before=known.address)
            except NoAddress as error:
                ctx.record(pod, "FailedCreatePodSandBox", str(error), warning=True)
                raise Retry(str(error), seconds=_NO_ADDRESS) from error
        return replace(known, address=address, started_at=known.started_at or ctx.now())

    async def _carry_out(self, around: Surroundings, known: PodKnown, decided: Plan, ctx: Context) -> PodKnown:
        """Does what is planned, and keeps what is known after each step."""
        self._keep(around.pod, known)
        for step in decided.steps:
            match step:
                case Start(container):
                    known = await self._launcher.start(around, known, container, ctx)
                case Stop():
                    known = await self._launcher.stop(around, known, step, ctx)
                case Remove():
                    continue
            self._keep(around.pod, known)
        return known

    def _keep(self, pod: Pod, known: PodKnown) -> None:
        self.node.records.save(replace(known, news=()))
        self.states.keep(pod.ref, known, key=known.uid)

    async def _finish(self, pod: Pod, known: PodKnown, decided: Plan, ctx: Context) -> Action | None:
        """Tells how the Pod is, lets it go if it is through, and says when to look again."""
        now = ctx.now()
        status = pod_status(pod, known, now, host=self.node.host, restarts=self.node.restarts)
        for one in (*known.news, *status_news(pod, pod.status, status)):
            ctx.record(pod, one.reason, one.message, warning=True)
        self._keep(pod, replace(known, news=()))
        await ctx.set_status(pod, status)
        if Remove() in decided.steps:
            await self._let_go(pod, ctx)
            return None
        if status.phase in _TERMINAL and not known.living:
            self._housing.free(known.uid)
        if known.unmounted:
            return requeue(_MOUNT_AGAIN)
        return None if decided.look_at is None else requeue(max(0.0, (decided.look_at - now).total_seconds()))

    async def _let_go(self, pod: Pod, ctx: Context) -> None:
        """Has the server remove a Pod that has ended; finalizers of others may keep it."""
        if pod.metadata.deletion_grace_period_seconds == 0:
            return
        try:
            await ctx.client.delete(pod.ref, uid=pod.metadata.uid, grace=0, missing_ok=True)
        except Conflict:
            ctx.log.debug("not removed: another Pod has its name now")


async def _wait_for_place(pod: Pod, ctx: Context) -> None:
    waiting = unscheduled(pod, _CORDONED, ctx.now())
    if pod.status is None or waiting != pod.status:
        ctx.record(pod, "FailedScheduling", _CORDONED, warning=True)
    await ctx.set_status(pod, waiting)


def _is_cordoned(node: core_v1.Node) -> bool:
    return bool(node.spec.unschedulable)


def _nobody(_: Service) -> Iterable[Ref[Pod]]:
    return ()


def _said_by_others(pod: Pod) -> object:
    """What may change of a Pod besides its spec that concerns its node: less time to end, and readiness gates."""
    status = pod.status or PodStatus()
    gates = {gate.condition_type for gate in pod.spec.readiness_gates}
    said = tuple((one.type, one.status) for one in status.conditions if one.type in gates)
    return pod.metadata.deletion_grace_period_seconds, said
