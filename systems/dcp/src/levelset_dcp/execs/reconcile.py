"""The controller of ContainerExecs: runs each command once, in a container that runs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    Retry,
    StateMap,
    await_change,
    references,
    remembers,
    requeue,
    source,
)
from levelset_dcp.containers.errands import Errands
from levelset_dcp.containers.preparing import read_env_files
from levelset_dcp.containers.scenes import scene_of
from levelset_dcp.containers.watching import Watching
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import EngineError
from levelset_dcp.engines.models import EngineEvent, NewExec
from levelset_dcp.environment import effective_of
from levelset_dcp.execs.places import exec_keys
from levelset_dcp.execs.plan import FINAL, LOST, Change, ExecKnown, failed, finished, known_of, plan, status_of
from levelset_dcp.kinds import Container, ContainerExec, ContainerExecStatus, EnvVar
from levelset_dcp.naming import finalizer
from levelset_dcp.templates import NotYet

__all__ = ["ExecKeeper", "container_execs_controller", "container_named"]

_SOON: Final = 2.0


def container_execs_controller(world: Containers) -> Controller[ContainerExec]:
    """The controller that runs commands inside of containers."""
    return ExecKeeper(world).controller()


class ExecKeeper:
    """Runs commands; what it knows of them is in `states`."""

    def __init__(self, world: Containers) -> None:
        self.world = world
        self.states: StateMap[ContainerExec, str, ExecKnown] = StateMap()
        self._errands: Errands[ExecKnown] = Errands(self.states, self._failed)
        self._watching = Watching(world, name="execs", concerns=_nobody, look=_ignore, listens=False)

    def controller(self) -> Controller[ContainerExec]:
        """The controller, with everything it follows."""
        return Controller(
            ContainerExec,
            self.reconcile,
            references(Container, container_named),
            remembers(self.states),
            source(self._watching.follow),
            cleanup=self.clean_up,
            finalizer=finalizer("container-exec-reconciler"),
            name="dcp-execs",
        )

    async def reconcile(self, one: ContainerExec, ctx: Context) -> Action:
        """Looks at a command, and does what is next."""
        self._require_open(one)
        known = self._known(one)
        container = await ctx.find(Ref(Container, one.spec.container_name))
        step = plan(known, container)
        if step == "mark":
            # Written down before it is run: whoever finds that, and does not remember more, does not run it again.
            known = replace(known, state="Starting", is_ours=True)
            await self._show(one, known, ctx)
            self.states.keep(ctx.ref, known)
            step = "run"
        if step == "run" and container is not None:
            known = await self._run(one, known, container, ctx)
        elif step == "refuse":
            known = failed(f"container {one.spec.container_name} has ended", self.world.now())(known) or known
        elif step == "mourn":
            known = replace(known, state="Unknown", message=LOST, finished_at=self.world.now())
        self.states.keep(ctx.ref, known)
        if step != "wait":
            await self._show(one, known, ctx)
        return requeue(seconds=_SOON) if known.state == "Starting" else await_change()

    async def clean_up(self, one: ContainerExec, ctx: Context) -> None:
        """Listens no longer, and removes what was written."""
        uid, tasks = one.metadata.uid, self._watching.tasks
        if tasks is not None and f"exec {uid}" in tasks.running:
            await tasks.stop(f"exec {uid}")
        self._errands.forget(ctx.ref)
        self.world.gone(uid)
        for key in exec_keys(uid):
            self.world.logs.remove(key)

    async def _run(self, one: ContainerExec, known: ExecKnown, container: Container, ctx: Context) -> ExecKnown:
        """Begins to run the command, in a task of its own, unless a template has to wait."""
        spec, tasks = one.spec, self._watching.tasks
        env = [EnvVar(name=var.name, value=var.value) for var in spec.env]
        files = await read_env_files(one.name, spec.env_files)
        try:
            effective = effective_of(spec.args, env, scene=scene_of(container, ctx.cached), files=files)
        except NotYet as error:
            return replace(known, message=str(error))
        if tasks is None or container.status is None:
            return known
        what = NewExec(
            command=(spec.command, *effective.args), env=effective.env, working_directory=spec.working_directory
        )
        paths = [self.world.logs.path(key) for key in exec_keys(known.uid)]
        work = partial(self._exec, ctx.ref, known.uid, container.status.container_id, what)
        tasks.start(f"exec {known.uid}", work())
        return replace(
            known,
            state="Running",
            message="",
            started_at=self.world.now(),
            env=effective.shown,
            args=effective.args,
            files=(str(paths[0] or ""), str(paths[1] or "")),
        )

    async def _exec(self, ref: Ref[ContainerExec], uid: str, container_id: str, what: NewExec) -> None:
        out, err = (self.world.logs.open(key) for key in exec_keys(uid))
        self.world.started(uid, container_id)
        try:
            code = await self.world.ready_engine.exec(container_id, what, out=out, err=err)
            change = finished(code, self.world.now())
        except EngineError as error:
            change = failed(str(error), self.world.now())
        finally:
            out.close()
            err.close()
        self._errands.tell(ref, uid, change)

    async def _show(self, one: ContainerExec, known: ExecKnown, ctx: Context) -> None:
        before = one.status or ContainerExecStatus()
        status = status_of(one, known, ctx.now())
        await ctx.set_status(one, status)
        if status.state != before.state:
            words = known.message or f"{one.spec.command} is {status.state}"
            ctx.record(one, status.state or "Waiting", words, warning=status.state in ("FailedToStart", "Unknown"))
        if known.state in FINAL and known.state != "Finished":
            self.world.gone(known.uid)

    def _known(self, one: ContainerExec) -> ExecKnown:
        known = self.states.borrow(one.ref)
        if known is not None and known.uid == one.metadata.uid:
            tasks = self._watching.tasks
            is_lost = known.state == "Running" and known.is_ours and not self.states.has_deferred(one.ref)
            if is_lost and tasks is not None and f"exec {known.uid}" not in tasks.running:
                return replace(known, is_ours=False)  # the controller was stopped meanwhile, and the task with it
            return known
        return known_of(one)

    def _failed(self, words: str) -> Change:
        return failed(words, self.world.now())

    def _require_open(self, one: ContainerExec) -> None:
        if not self._watching.is_open:
            raise Retry(f"{one.ref}: nobody can look after it yet", seconds=0.5)


def container_named(one: ContainerExec) -> Iterator[Ref[Container]]:
    """The container that a command is run in."""
    yield Ref(Container, one.spec.container_name)


def _nobody(_: EngineEvent) -> tuple[str, ...]:
    return ()


async def _ignore(_: str) -> None:
    return
