"""Starts a program: finds out what it gets, starts it, remembers it, and looks after it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from levelset import Ref, StateMap
from levelset.errors import LevelsetError
from levelset_dcp.environment import Effective, effective_of, read_env_file
from levelset_dcp.executables.attending import Attendants, Charge
from levelset_dcp.executables.certificates import BadCertificate, certificate_folder, write_certificates
from levelset_dcp.executables.known import RunKnown
from levelset_dcp.executables.lifecycle import lifecycle_key
from levelset_dcp.executables.monitoring import monitor_command
from levelset_dcp.executables.places import LogPlace, log_place
from levelset_dcp.executables.plan import habits_of
from levelset_dcp.executables.scenes import scene_of
from levelset_dcp.executables.terminals import TerminalRunner, open_terminal
from levelset_dcp.executables.world import Executables, Started
from levelset_dcp.kinds import Executable, Service
from levelset_dcp.named import producers
from levelset_dcp.records.records import ProcessRecord
from levelset_dcp.templates import NotYet, Scene
from levelset_machine import CannotStart, Command, Terminal

__all__ = ["Find", "Launcher"]

Find = Callable[[Ref[Service]], Service | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything that is needed to start a program without waiting for anything."""

    command: Command
    effective: Effective
    closing: AsyncExitStack
    terminal: Terminal | None = None
    socket: str = ""


class Launcher:
    """Starts programs and takes over those that an earlier session has left."""

    def __init__(self, world: Executables, states: StateMap[Executable, str, RunKnown], attendants: Attendants) -> None:
        self._world = world
        self._states = states
        self._attendants = attendants

    async def scene(self, exe: Executable, find: Find) -> Scene:
        """What the templates of an Executable may speak of; ports that it needs are found for it, once."""
        ports = self._world.given.setdefault(exe.metadata.uid, {})
        for one in producers(exe):
            if one.port is None and one.service not in ports:
                service = find(Ref(Service, one.service))
                if service is not None:
                    is_udp = service.spec.protocol == "UDP"
                    address = "127.0.0.1" if one.address in ("", "localhost") else one.address
                    ports[one.service] = await asyncio.to_thread(self._world.ports, address, is_udp)
        return scene_of(exe, ports, find)

    def ports(self, exe: Executable) -> Mapping[str, int]:
        """The ports that an Executable was given."""
        return self._world.given.get(exe.metadata.uid, {})

    def forget(self, uid: str) -> None:
        """Forgets the ports of an Executable that is gone."""
        self._world.given.pop(uid, None)

    def place(self, exe: Executable) -> LogPlace:
        """Where the logs of an Executable are."""
        return log_place(self._world, exe.name, exe.metadata.uid, lasts=habits_of(exe.spec).finds)

    async def effective(self, exe: Executable, find: Find) -> Effective:
        """What the program gets; raises NotYet while a template has to wait."""
        spec = exe.spec
        texts = await asyncio.to_thread(_read_files, exe.name, spec.env_files) if spec.env_files else []
        ambient = self._world.ambient if spec.ambient_environment.behavior == "Inherit" else None
        files = [read_env_file(one) for one in texts]
        return effective_of(spec.args, spec.env, scene=await self.scene(exe, find), ambient=ambient, files=files)

    async def launch(self, exe: Executable, known: RunKnown, find: Find) -> RunKnown:
        """Starts the program; the run, or why there is none."""
        async with AsyncExitStack() as stack:
            try:
                prepared = await self._prepare(exe, find, stack)
            except NotYet as error:
                return known.moved("Starting", message=str(error))
            except BadCertificate as error:
                return self._failed(known, [str(error)])
            except OSError as error:
                return self._failed(known, [f"its terminal cannot be opened: {error}"])
            attempts: list[str] = []
            for way in (exe.spec.execution_type, *exe.spec.fallback_execution_types):
                if way == "IDE":
                    attempts.append("IDE: there is no development environment to ask")
                    continue
                try:
                    started = self._start(exe, prepared)
                except CannotStart as error:
                    attempts.append(f"{way}: {error}" if exe.spec.fallback_execution_types else str(error))
                    continue
                # Nothing is awaited between the birth of the process and its being known.
                made = self._took(exe, known, started)
                stack.pop_all()  # what was opened is closed when the run has ended
                return await self._write_down(exe, made, prepared.effective)
            shown = replace(known, env=prepared.effective.shown, args=prepared.effective.args)
            return self._failed(shown, attempts)

    def adopt(self, exe: Executable, known: RunKnown, record: ProcessRecord, effective: Effective) -> RunKnown | None:
        """Takes over a program that an earlier session has left; None if it is gone by now."""
        run = self._world.runner.adopt(record.identity)
        if run is None:
            return None
        closing = AsyncExitStack()
        for sink in self.place(exe).open():
            closing.callback(sink.close)  # as long as it is open, there may be more to read
        return self._took(exe, known, Started(run, record.started_at, closing, effective))

    def resume(self, exe: Executable, known: RunKnown, started: Started) -> RunKnown:
        """Goes on with a run that an earlier controller of this process has started."""
        if known.state == "Stopping":
            known = replace(known, identity=started.run.identity, started_at=started.at)
        return self._took(exe, known, started)

    async def _prepare(self, exe: Executable, find: Find, closing: AsyncExitStack) -> _Prepared:
        effective = await self.effective(exe, find)
        spec, env = exe.spec, {**await self._certificates(exe), **effective.env}
        command = Command(argv=(spec.executable_path, *effective.args), env=env, cwd=spec.working_directory or None)
        if spec.terminal is None:
            return _Prepared(command, effective, closing)
        if not isinstance(self._world.runner, TerminalRunner):
            raise OSError("there are none here")
        kept = AsyncExitStack()
        closing.push_async_exit(kept)
        terminal, socket = await open_terminal(spec.terminal, self._world.folder, exe.metadata.uid, kept)
        return _Prepared(command, effective, kept, terminal, socket)

    def _start(self, exe: Executable, prepared: _Prepared) -> Started:
        runner = self._world.runner
        if prepared.terminal is not None and isinstance(runner, TerminalRunner):
            run = runner.start_on(prepared.terminal, prepared.command)
            return Started(run, runner.now(), prepared.closing, prepared.effective, prepared.socket)
        place, lasts = self.place(exe), habits_of(exe.spec).finds
        if lasts:
            place.remove()  # what an earlier one has written
        out, err = place.open()
        try:
            run = runner.start(prepared.command, out=out, err=err, persistent=lasts)
            return Started(run, runner.now(), prepared.closing, prepared.effective)
        except BaseException:
            out.close()
            err.close()
            raise

    def _took(self, exe: Executable, known: RunKnown, started: Started) -> RunKnown:
        uid, identity, effective = exe.metadata.uid, started.run.identity, started.effective
        if effective is not None:
            known = replace(known, env=effective.shown, args=effective.args, terminal=started.socket)
        files = ("", "") if exe.spec.terminal is not None else self.place(exe).files
        made = known.moved("Running", identity=identity, started_at=started.at, message="", files=files)
        self._states.keep(exe.ref, made, key=f"{identity.pid}/{identity.started}")
        self._world.runs[uid] = started
        self._attendants.attend(Charge(exe.ref, uid, started))
        self._world.waiting.started(uid)
        return made

    async def _write_down(self, exe: Executable, known: RunKnown, effective: Effective) -> RunKnown:
        """Remembers a program that outlives the session; one that cannot be remembered is stopped again."""
        if not habits_of(exe.spec).finds or known.identity is None or known.started_at is None:
            return known
        record = ProcessRecord(
            name=exe.name,
            identity=known.identity,
            key=lifecycle_key(exe.spec, effective),
            started_at=known.started_at,
            log=exe.name,
        )
        try:
            await self._world.records.write(record)
            self._watch(exe, known)
        except LevelsetError as error:
            charge = self._attendants.charge(exe.metadata.uid)
            if charge is not None:
                self._attendants.stop(charge)
            return replace(known, state="Starting", doom=f"it cannot be looked after, so it was stopped again: {error}")
        return known

    def _watch(self, exe: Executable, known: RunKnown) -> None:
        """Has a process of its own end the program when the one that it names ends, also when we are gone."""
        spec = exe.spec
        if spec.monitor_pid is None or spec.monitor_timestamp is None or known.identity is None:
            return
        command = monitor_command(known.identity, spec.monitor_pid, spec.monitor_timestamp, self._world.ambient)
        place = self.place(exe)
        key = f"{place.out}_monitor"
        place.store.remove(key)
        sink = place.store.open(key)
        try:
            self._world.runner.start(command, out=sink, persistent=True)
        except BaseException:
            sink.close()
            raise

    def _failed(self, known: RunKnown, attempts: list[str]) -> RunKnown:
        now = self._world.runner.now()
        return known.moved("FailedToStart", started_at=now, finished_at=now, message="; ".join(attempts))

    async def _certificates(self, exe: Executable) -> Mapping[str, str]:
        certificates = exe.spec.pem_certificates
        if certificates is None:
            return {}
        folder = certificate_folder(self._world.folder, exe.metadata.uid)
        return await asyncio.to_thread(write_certificates, folder, certificates)


def _read_files(name: str, paths: tuple[str, ...]) -> list[str]:
    """All files, or none of them if one cannot be read."""
    try:
        return [Path(one).read_text(encoding="utf-8") for one in paths]
    except (OSError, ValueError) as error:
        log.warning("%s: its variables are not read from files: %s", name, error)
        return []
