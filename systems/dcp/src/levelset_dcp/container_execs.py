"""The controller of ContainerExecs: runs each command once, in a running container."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    StateMap,
    await_change,
    references,
    remembers,
    replace,
    requeue,
    set_condition,
    source,
)
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest
from levelset.objects import MicroTime
from levelset_dcp.containers.background_tasks import BackgroundTasks
from levelset_dcp.containers.engine_watcher import EngineWatcher
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.containers.logs import read_stored_log, status_in
from levelset_dcp.engines.errors import EngineError
from levelset_dcp.engines.models import EngineEvent, NewExec
from levelset_dcp.kinds import Container, ContainerExec, ContainerExecStatus, EnvVar
from levelset_dcp.names import finalizer
from levelset_dcp.workloads.environment import effective_of, read_env_files
from levelset_dcp.workloads.templates import DependencyNotReady, container_context, template_conditions
from levelset_dcp.workloads.workload_status import write_state
from levelset_machine import LogOptions

__all__ = [
    "FINAL",
    "LOST",
    "Change",
    "ContainerExecReconciler",
    "ExecState",
    "ObservedExec",
    "Step",
    "container_execs_controller",
    "exec_keys",
    "exec_logs",
    "failed",
    "finished",
    "observed_from_status",
    "plan",
    "referenced_container",
    "status_of",
]

ExecState = Literal["", "Starting", "Running", "FailedToStart", "Finished", "Unknown"]
FINAL: Final = ("FailedToStart", "Finished", "Unknown")
LOST: Final = "the result is lost, because the manager that ran it is gone; create another object to run it again"
Step = Literal["none", "wait", "write_starting", "run", "fail", "mark_lost"]
"""Do nothing; wait for the container; write Starting; run; fail as the container has ended; report as lost."""
_SOON: Final = 2.0
_SOURCES: Final = ("stdout", "stderr")


class ObservedExec(Struct, frozen=True, kw_only=True):
    """The observed state of one command."""

    uid: str
    state: ExecState = ""
    is_ours: bool = False
    """Whether this controller has started it."""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    env: tuple[EnvVar, ...] = ()
    args: tuple[str, ...] = ()
    files: tuple[str, str] = ("", "")


Change = Callable[[ObservedExec], ObservedExec | None]


def plan(observed: ObservedExec, container: Container | None) -> Step:
    """The next step.

    A command runs at most once: the state Starting is written first, and a command in this state whose result is
    unknown is not run again.
    """
    if observed.state in FINAL or observed.state == "Running":
        return "none" if observed.is_ours or observed.state in FINAL else "mark_lost"
    if observed.state == "Starting":
        return "run" if observed.is_ours else "mark_lost"
    status = None if container is None else container.status
    if status is None:
        return "wait"
    if status.finish_timestamp is not None or status.state in ("FailedToStart", "Exited", "Unknown"):
        return "fail"
    return "write_starting" if status.state == "Running" else "wait"


def finished(code: int, at: datetime) -> Change:
    """The command has exited."""
    return lambda observed: replace(observed, state="Finished", exit_code=code, finished_at=at, message="")


def failed(message: str, at: datetime) -> Change:
    """The command cannot be run."""

    def change(observed: ObservedExec) -> ObservedExec:
        started = observed.started_at or at
        return replace(observed, state="FailedToStart", started_at=started, finished_at=at, message=message)

    return change


def observed_from_status(one: ContainerExec) -> ObservedExec:
    """Restores the observed state from the status after a restart."""
    status = one.status or ContainerExecStatus()
    return ObservedExec(
        uid=one.metadata.uid,
        state=status.state,
        message=status.message,
        started_at=status.startup_timestamp,
        finished_at=status.finish_timestamp,
        exit_code=status.exit_code,
        env=status.effective_env,
        args=status.effective_args,
        files=(status.std_out_file, status.std_err_file),
    )


def status_of(one: ContainerExec, observed: ObservedExec, now: datetime) -> ContainerExecStatus:
    """The new status of a command."""
    before = one.status or ContainerExecStatus()
    conditions = set_condition(
        before.conditions,
        "Succeeded",
        observed.state == "Finished" and observed.exit_code == 0,
        now=now,
        reason=observed.state or "Waiting",
        message=observed.message or (f"exit code {observed.exit_code}" if observed.exit_code is not None else ""),
        observed_generation=one.metadata.generation,
    )
    return replace(
        before,
        state=observed.state,
        startup_timestamp=None if observed.started_at is None else MicroTime.of(observed.started_at),
        finish_timestamp=None if observed.finished_at is None else MicroTime.of(observed.finished_at),
        exit_code=observed.exit_code,
        std_out_file=observed.files[0],
        std_err_file=observed.files[1],
        effective_env=observed.env,
        effective_args=observed.args,
        message=observed.message,
        conditions=template_conditions(conditions, one, now),
        observed_generation=one.metadata.generation,
    )


def container_execs_controller(host: ContainerHost) -> Controller[ContainerExec]:
    """The controller of ContainerExecs."""
    return ContainerExecReconciler(host).controller()


class ContainerExecReconciler:
    """Reconciles ContainerExecs; their observed state is in `states`."""

    def __init__(self, host: ContainerHost) -> None:
        self.host = host
        self.states: StateMap[ContainerExec, str, ObservedExec] = StateMap()
        self._background: BackgroundTasks[ObservedExec] = BackgroundTasks(self.states, self._failed)
        self._watcher = EngineWatcher(
            host, name="execs", affected=_none_affected, inspect=_ignore, watches_events=False
        )

    def controller(self) -> Controller[ContainerExec]:
        """The controller with its watches and sources."""
        return Controller(
            ContainerExec,
            self.reconcile,
            references(Container, referenced_container),
            remembers(self.states),
            source(self._watcher.open_source),
            cleanup=self.clean_up,
            finalizer=finalizer("container-exec-reconciler"),
            name="dcp-execs",
        )

    async def reconcile(self, one: ContainerExec, ctx: Context) -> Action:
        """Runs the command when its container runs, and writes its status."""
        self._watcher.require_open(one.ref)
        observed = self._observed(one)
        container = await ctx.find(Ref(Container, one.spec.container_name))
        step = plan(observed, container)
        observed = await self._act(step, one, observed, container, ctx)
        self.states.put(ctx.ref, observed)
        if step != "wait":
            await self._write_status(one, observed, ctx)
        return requeue(seconds=_SOON) if observed.state == "Starting" else await_change()

    async def _act(
        self, step: Step, one: ContainerExec, observed: ObservedExec, container: Container | None, ctx: Context
    ) -> ObservedExec:
        """Carries out a step, and returns the new observed state."""
        if step == "write_starting":
            # Written before the command runs: a controller that restarts in this state must not run it again.
            observed = replace(observed, state="Starting", is_ours=True)
            await self._write_status(one, observed, ctx)
            self.states.put(ctx.ref, observed)
            step = "run"
        if step == "run" and container is not None:
            return await self._run(one, observed, container, ctx)
        if step == "fail":
            return failed(f"container {one.spec.container_name} has ended", self.host.now())(observed) or observed
        if step == "mark_lost":
            return replace(observed, state="Unknown", message=LOST, finished_at=self.host.now())
        return observed

    async def clean_up(self, one: ContainerExec, ctx: Context) -> None:
        """Stops reading the output, and removes the logs."""
        uid, tasks = one.metadata.uid, self._watcher.tasks
        if tasks is not None and f"exec {uid}" in tasks.running:
            await tasks.stop(f"exec {uid}")
        self._background.forget(ctx.ref)
        self.host.gone(uid)
        for key in exec_keys(uid):
            self.host.logs.remove(key)

    async def _run(
        self, one: ContainerExec, observed: ObservedExec, container: Container, ctx: Context
    ) -> ObservedExec:
        """Starts the command in a task, unless a template cannot be evaluated yet."""
        spec, tasks = one.spec, self._watcher.tasks
        env = [EnvVar(name=var.name, value=var.value) for var in spec.env]
        files = await read_env_files(one.name, spec.env_files)
        try:
            effective = effective_of(spec.args, env, context=container_context(container, ctx.cached), files=files)
        except DependencyNotReady as error:
            return replace(observed, message=str(error))
        if tasks is None or container.status is None:
            return observed
        what = NewExec(
            command=(spec.command, *effective.args), env=effective.env, working_directory=spec.working_directory
        )
        paths = [self.host.logs.path(key) for key in exec_keys(observed.uid)]
        work = partial(self._exec, ctx.ref, observed.uid, container.status.container_id, what)
        tasks.start(f"exec {observed.uid}", work())
        return replace(
            observed,
            state="Running",
            message="",
            started_at=self.host.now(),
            env=effective.shown,
            args=effective.args,
            files=(str(paths[0] or ""), str(paths[1] or "")),
        )

    async def _exec(self, ref: Ref[ContainerExec], uid: str, container_id: str, what: NewExec) -> None:
        out, err = (self.host.logs.open(key) for key in exec_keys(uid))
        self.host.started(uid, container_id)
        try:
            code = await self.host.ready_engine.exec(container_id, what, out=out, err=err)
            change = finished(code, self.host.now())
        except EngineError as error:
            change = failed(str(error), self.host.now())
        finally:
            out.close()
            err.close()
        self._background.defer(ref, uid, change)

    async def _write_status(self, one: ContainerExec, observed: ObservedExec, ctx: Context) -> None:
        status = status_of(one, observed, ctx.now())
        message = observed.message or f"{one.spec.command} is {status.state}"
        is_warning = status.state in ("FailedToStart", "Unknown")
        await write_state(ctx, one, status, message, is_warning=is_warning, first="Waiting")
        if observed.state in FINAL and observed.state != "Finished":
            self.host.gone(observed.uid)

    def _observed(self, one: ContainerExec) -> ObservedExec:
        observed = self.states.get(one.ref)
        if observed is not None and observed.uid == one.metadata.uid:
            tasks = self._watcher.tasks
            is_lost = observed.state == "Running" and observed.is_ours and not self.states.has_deferred(one.ref)
            if is_lost and tasks is not None and f"exec {observed.uid}" not in tasks.running:
                # The controller was stopped in the meantime, and its tasks with it.
                return replace(observed, is_ours=False)
            return observed
        return observed_from_status(one)

    def _failed(self, message: str) -> Change:
        return failed(message, self.host.now())


def referenced_container(one: ContainerExec) -> Iterator[Ref[Container]]:
    """The container of a command."""
    yield Ref(Container, one.spec.container_name)


def _none_affected(_: EngineEvent) -> tuple[str, ...]:
    return ()


async def _ignore(_: str) -> None:
    return


def exec_keys(uid: str) -> tuple[str, str]:
    """The log keys of a command: stdout and stderr."""
    return f"{uid}_out", f"{uid}_err"


def exec_logs(host: ContainerHost) -> Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]:
    """The handler of the logs of ContainerExecs; `source` is stdout or stderr.

    A follow request for a command that has not started waits until it starts or its object is deleted.
    """

    async def read(request: LogRequest) -> AsyncIterator[bytes]:
        query = dict(request.query)
        source = query.pop("source", None) or "stdout"
        if source not in _SOURCES:
            raise BadRequest(f"source: unknown source {source!r}; a ContainerExec has {', '.join(_SOURCES)}")
        if request.tree["metadata"].get("deletionTimestamp"):
            raise BadRequest(f"{request.name} is being deleted, and its logs with it")
        options = LogOptions.of_query(query, now=host.now())
        uid = request.tree["metadata"]["uid"]
        key = exec_keys(uid)[_SOURCES.index(source)]
        is_over = status_in(request.tree).get("state") in FINAL
        return _follow(host, uid, key, options, is_over=is_over)

    return read


async def _follow(
    host: ContainerHost, uid: str, key: str, options: LogOptions, *, is_over: bool
) -> AsyncIterator[bytes]:
    if not host.logs.has(key) and options.follow and not is_over:
        await host.start_waiters.wait(uid)
    async for piece in read_stored_log(host.logs, key, options):
        yield piece
