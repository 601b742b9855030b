"""The Pod reconciler of the node: binds Pods, starts, stops and restarts their containers, and writes their status."""

from collections.abc import Iterable, Iterator
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
    replace,
    requeue,
    source,
    watches,
)
from levelset.kinds import core_v1
from levelset.kinds.core_v1 import (
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    Secret,
    Service,
)
from levelset.runtime.controller import SELF_CHANGES
from levelset_local import pod_state
from levelset_local.node.claimed_volumes import claim_refs, claimed_volumes
from levelset_local.node.config_sources import (
    AccountTokens,
    ConfigSources,
    config_map_refs,
    secret_refs,
)
from levelset_local.node.container_run import ContainerRun
from levelset_local.node.host_ports import NO_FREE_PORTS, PORTS_REJECTED, HostPortReservations, host_ports
from levelset_local.node.launcher import Launcher, PodInputs
from levelset_local.node.node import Node
from levelset_local.node.plan import Plan, Remove, Start, Stop, plan
from levelset_local.node.pod_addresses import PodAddresses
from levelset_local.node.pod_record import Failure, PendingEvent, PodRecord, recover_record
from levelset_local.node.pod_status import pod_status, rejected_status, unschedulable_status
from levelset_local.node.process_supervisor import ProcessSupervisor
from levelset_machine import NoAddress

__all__ = ["PodReconciler", "ignored_scheduling_fields", "pods_controller", "status_events"]

_CORDONED: Final = "0/1 nodes are available: 1 node(s) were unschedulable."
_REMOUNT_SECONDS: Final = 30.0
_NO_ADDRESS_SECONDS: Final = 10.0
_REJECTED_AFTER_SECONDS: Final = 1.0
"""The age at which a Pod is rejected: it bounds how often a controller recreates one that cannot be started."""
_API_SERVER: Final = Ref(Service, "kubernetes", "default")
_TERMINAL: Final = ("Succeeded", "Failed")


def pods_controller(node: Node, *, concurrency: int = 8) -> Controller[Pod]:
    """The controller that runs the Pods of a node as processes."""
    return PodReconciler(node).controller(concurrency)


class PodReconciler:
    """Runs the Pods of a node; `states` has their records, by Pod and uid."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.states: StateMap[Pod, str, PodRecord] = StateMap()
        self._addresses = PodAddresses(node.addresses)
        self._tokens = AccountTokens()
        self._host_ports = HostPortReservations()
        self._supervisor = ProcessSupervisor(node, self.states, self._addresses, self._host_ports)
        self._launcher = Launcher(node, self._supervisor)

    def find_run(self, uid: str, container: str) -> ContainerRun | None:
        """The running process of a container, or None."""
        return self._supervisor.find(uid, container)

    def processes(self) -> dict[int, tuple[str, str]]:
        """The pids of the running containers, with the uids of their Pods and their names."""
        return self._supervisor.processes()

    def controller(self, concurrency: int = 8) -> Controller[Pod]:
        """The controller, with its watches and sources."""
        return Controller(
            Pod,
            self.reconcile,
            references(ConfigMap, config_map_refs),
            references(Secret, secret_refs),
            references(PersistentVolumeClaim, claim_refs),
            watches(PersistentVolume, to=_no_pods),  # cached only: a claim is written after its volume
            watches(Service, to=_no_pods),  # cached only: they are read when a container starts
            references(core_v1.Node, self._node_refs, when=by.value(_is_cordoned)),
            remembers(self.states),
            source(self._supervisor.run),
            source(self._host_ports.retried),
            gone=self.gone,
            when=any_of(SELF_CHANGES, by.value(_external_fields)),
            name="node-agent",
            concurrency=concurrency,
        )

    async def reconcile(self, pod: Pod, ctx: Context) -> Action | None:
        """Takes the next steps for a Pod of this node."""
        if not self._is_ours(pod):
            return None
        if not self._supervisor.is_open:
            raise Retry(f"{pod.ref}: its processes cannot be supervised yet", seconds=0.5)
        self._clean_up_predecessors(pod)
        if not pod.spec.node_name:
            why = await self._why_unschedulable(pod, ctx)
            if why:
                await _report_unschedulable(pod, why, ctx)
                return None
            try:
                pod = await self._bind(pod, ctx)
            except NotFound:
                return None  # it was deleted meanwhile
        record = self._record_of(pod)
        if pod.metadata.deletion_timestamp is None:
            if pod_state.is_finished(pod) and not record.running_containers:
                return None
            if not await self._reserve_host_ports(pod, ctx):
                return await self._reject(pod, PORTS_REJECTED, ctx)
        inputs = await self._read_inputs(pod, ctx)
        record = self._launcher.adopt(inputs, record, ctx.now())
        record = self._assign_address(pod, record, ctx)
        self._save(pod, record)  # from here on the supervisor may defer updates for this uid
        record = await self._launcher.mount(inputs, record, ctx)
        decided = plan(pod, record, ctx.now(), self.node.restart_backoff)
        record = await self._execute(inputs, replace(record, failure=decided.failure or record.failure), decided, ctx)
        return await self._finish(pod, record, decided, ctx)

    async def gone(self, ref: Ref[Pod], _: Context) -> None:
        """Stops the processes and removes the files of a Pod that no longer exists."""
        if not self._supervisor.is_open:
            raise Retry(f"{ref}: its processes cannot be stopped yet", seconds=0.5)
        for record in self.node.records.of_name(ref.namespace, ref.name):
            self._supervisor.clean_up(record)
            self._tokens.forget(record.uid)
        self._host_ports.retry()  # a Pod that this manager has not started may have had one

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a Pod is bound to this node, or is unbound and left to the default scheduler."""
        spec = pod.spec
        if spec.node_name:
            return spec.node_name == self.node.name
        is_free = not spec.scheduling_gates and spec.scheduler_name in (None, "", "default-scheduler")
        return is_free and pod.metadata.deletion_timestamp is None

    def _clean_up_predecessors(self, pod: Pod) -> None:
        """Cleans up earlier Pods of the same name, whose deletion was not observed."""
        for record in self.node.records.of_name(pod.namespace, pod.name):
            if record.uid != pod.metadata.uid:
                self._supervisor.clean_up(record)
                self._tokens.forget(record.uid)

    def _node_refs(self, pod: Pod) -> Iterable[Ref[core_v1.Node]]:
        """The Node that an unbound Pod waits for."""
        return () if pod.spec.node_name else (Ref(core_v1.Node, self.node.name),)

    async def _why_unschedulable(self, pod: Pod, ctx: Context) -> str:
        """Why an unbound Pod cannot be bound to this node now; empty if it can."""
        found = ctx.cached(Ref(core_v1.Node, self.node.name))
        if found is not None and _is_cordoned(found):
            return _CORDONED
        if not await self._reserve_host_ports(pod, ctx):
            self._host_ports.wait(pod.ref)
            return NO_FREE_PORTS
        return ""

    async def _reserve_host_ports(self, pod: Pod, ctx: Context) -> bool:
        """Reserves the host ports of a Pod, if it has any; False if another Pod of this node has one of them."""
        if not host_ports(pod) or pod.metadata.uid in self._host_ports:
            return True
        if self._is_started(pod):  # by an earlier manager
            self._host_ports.reserve(pod)
        elif self._host_ports.try_reserve(pod, [one for one in await ctx.list(Pod) if self._is_started(one)]):
            _report_unforwarded_ports(pod, ctx)
        else:
            return False
        self._save(pod, self._record_of(pod))  # the reservation ends when the record is cleaned up
        return True

    async def _reject(self, pod: Pod, failure: Failure, ctx: Context) -> Action | None:
        """Rejects a bound Pod, but not at once: its controller may recreate it in the very moment it has failed."""
        created = pod.metadata.creation_timestamp or ctx.now()
        left = _REJECTED_AFTER_SECONDS - (ctx.now() - created).total_seconds()
        if left > 0:
            self._host_ports.wait(pod.ref)
            return requeue(left)
        ctx.record(pod, failure.reason, failure.message, warning=True)
        await ctx.set_status(pod, rejected_status(pod, failure, ctx.now()))
        return None

    def _is_started(self, pod: Pod) -> bool:
        """Whether a Pod was started on this node and has not finished."""
        is_here = pod.spec.node_name == self.node.name and not pod_state.is_finished(pod)
        return is_here and self._record_of(pod).started_at is not None

    async def _bind(self, pod: Pod, ctx: Context) -> Pod:
        patch = MergePatch({"metadata": {"uid": pod.metadata.uid}, "spec": {"nodeName": self.node.name}})
        bound = await ctx.patch(pod.ref, patch)
        ctx.record(pod, "Scheduled", f"Successfully assigned {pod.namespace}/{pod.name} to {self.node.name}")
        ignored = ignored_scheduling_fields(pod)
        if ignored:
            message = f"{ignored}: ignored, as {self.node.name} is the only node"
            ctx.record(pod, "SchedulingWishesIgnored", message, warning=True)
        return bound

    def _record_of(self, pod: Pod) -> PodRecord:
        record = self.states.get(pod.ref)
        if record is not None and record.uid == pod.metadata.uid:
            return record
        return recover_record(pod, self.node.records.find(pod.metadata.uid))

    async def _read_inputs(self, pod: Pod, ctx: Context) -> PodInputs:
        maps = ((ref.name, ctx.cached(ref)) for ref in config_map_refs(pod))
        keys = ((ref.name, ctx.cached(ref)) for ref in secret_refs(pod))
        sources = ConfigSources(
            {name: one for name, one in maps if one is not None},
            {name: one for name, one in keys if one is not None},
            {} if pod.metadata.deletion_timestamp is not None else await self._tokens.read(pod, ctx),
            claimed_volumes(pod, self.node.folder, ctx),
        )
        links: list[Service] = []
        if pod.spec.enable_service_links is not False:
            links += await ctx.list(Service, namespace=pod.namespace)
        server = ctx.cached(_API_SERVER)  # as in Kubernetes, every container gets its variables
        if server is not None and server not in links:
            links.append(server)
        return PodInputs(pod, sources, tuple(links))

    def _assign_address(self, pod: Pod, record: PodRecord, ctx: Context) -> PodRecord:
        """Assigns the address and the start time of a Pod; raises Retry if the pool is exhausted."""
        if pod.spec.host_network:
            address = self.node.host
        elif record.running_containers and record.address:
            address = self._addresses.reserve(record.uid, record.address)
        else:
            try:
                address = self._addresses.allocate(record.uid, before=record.address)
            except NoAddress as error:
                ctx.record(pod, "FailedCreatePodSandBox", str(error), warning=True)
                raise Retry(str(error), seconds=_NO_ADDRESS_SECONDS) from error
        return replace(record, address=address, started_at=record.started_at or ctx.now())

    async def _execute(self, inputs: PodInputs, record: PodRecord, decided: Plan, ctx: Context) -> PodRecord:
        """Executes the planned steps, and saves the record after each of them."""
        self._save(inputs.pod, record)
        for step in decided.steps:
            match step:
                case Start(container):
                    record = await self._launcher.start(inputs, record, container, ctx)
                case Stop():
                    record = await self._launcher.stop(inputs, record, step, ctx)
                case Remove():
                    continue
            self._save(inputs.pod, record)
        return record

    def _save(self, pod: Pod, record: PodRecord) -> None:
        self.node.records.save(replace(record, pending_events=()))
        self.states.put(pod.ref, record, key=record.uid)

    async def _finish(self, pod: Pod, record: PodRecord, decided: Plan, ctx: Context) -> Action | None:
        """Writes events and status, completes the deletion of a Pod that has ended, and requeues as planned."""
        now = ctx.now()
        status = pod_status(pod, record, now, host=self.node.host, backoff=self.node.restart_backoff)
        for one in (*record.pending_events, *status_events(pod, pod.status, status)):
            ctx.record(pod, one.reason, one.message, warning=True)
        self._save(pod, replace(record, pending_events=()))
        await ctx.set_status(pod, status)
        if Remove() in decided.steps:
            await self._complete_deletion(pod, ctx)
            return None
        if status.phase in _TERMINAL and not record.running_containers:
            self._addresses.free(record.uid)
            self._host_ports.free(record.uid)
            self._tokens.forget(record.uid)
        if record.unmounted:
            return requeue(_REMOUNT_SECONDS)
        times = [one for one in (decided.requeue_at, self._tokens.refresh_at(record.uid)) if one is not None]
        return requeue(max(0.0, (min(times) - now).total_seconds())) if times else None

    async def _complete_deletion(self, pod: Pod, ctx: Context) -> None:
        """Deletes a Pod that has ended with a grace period of 0; finalizers may still keep the object."""
        if pod.metadata.deletion_grace_period_seconds == 0:
            return
        try:
            await ctx.client.delete(pod.ref, uid=pod.metadata.uid, grace=0, missing_ok=True)
        except Conflict:
            ctx.log.debug("not deleted: another Pod has this name now")


async def _report_unschedulable(pod: Pod, why: str, ctx: Context) -> None:
    waiting = unschedulable_status(pod, why, ctx.now())
    if pod.status is None or waiting != pod.status:
        ctx.record(pod, "FailedScheduling", why, warning=True)
    await ctx.set_status(pod, waiting)


def _report_unforwarded_ports(pod: Pod, ctx: Context) -> None:
    if not pod.spec.host_network:
        numbers = ", ".join(str(one.number) for one in host_ports(pod))
        message = f"hostPort {numbers}: reserved, but not forwarded to the Pod; connect to the Pod's own address"
        ctx.record(pod, "HostPortNotForwarded", message, warning=True)


def _is_cordoned(node: core_v1.Node) -> bool:
    return bool(node.spec.unschedulable)


def _no_pods(_: Service | PersistentVolume) -> Iterable[Ref[Pod]]:
    return ()


def _external_fields(pod: Pod) -> object:
    """The fields outside of the spec that other writers change: the deletion grace period and readiness gates."""
    status = pod.status or PodStatus()
    gates = {gate.condition_type for gate in pod.spec.readiness_gates}
    conditions = tuple((one.type, one.status) for one in status.conditions if one.type in gates)
    return pod.metadata.deletion_grace_period_seconds, conditions


def status_events(pod: Pod, before: PodStatus | None, after: PodStatus) -> Iterator[PendingEvent]:
    """The warning Events for a change of status: containers that wait for a new reason, and a Pod that has failed."""
    reported = _waiting_reasons(before)
    for name, (reason, message) in _waiting_reasons(after).items():
        if reported.get(name) == (reason, message):
            continue
        if reason == "CrashLoopBackOff":
            place = f"{pod.name}_{pod.namespace}({pod.metadata.uid})"
            yield PendingEvent(reason="BackOff", message=f"Back-off restarting failed container {name} in pod {place}")
        elif reason not in ("ContainerCreating", "PodInitializing"):
            yield PendingEvent(
                reason="Failed", message=f"Error: {reason}: {message}" if message else f"Error: {reason}"
            )
    was_failed = before is not None and before.phase == "Failed"
    if after.phase == "Failed" and after.reason and not was_failed:
        yield PendingEvent(reason=after.reason, message=after.message or after.reason)


def _waiting_reasons(status: PodStatus | None) -> dict[str, tuple[str, str]]:
    if status is None:
        return {}
    statuses = (*status.init_container_statuses, *status.container_statuses)
    states = ((one.name, one.state.waiting) for one in statuses)
    return {name: (waiting.reason or "", waiting.message or "") for name, waiting in states if waiting is not None}


def ignored_scheduling_fields(pod: Pod) -> str:
    """The scheduling fields of a Pod that have no effect with a single node; empty if there are none."""
    spec = pod.spec
    is_set = {
        "nodeSelector": bool(spec.node_selector),
        "affinity": spec.affinity is not None,
        "topologySpreadConstraints": bool(spec.topology_spread_constraints),
    }
    return ", ".join(name for name, value in is_set.items() if value)
