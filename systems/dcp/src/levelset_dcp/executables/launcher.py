"""Starts the processes of Executables, adopts those of earlier sessions, and records persistent ones."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct

from levelset import Ref, StateMap, replace
from levelset.errors import LevelsetError
from levelset_dcp.executables.host import ExecutableHost, StartedRun
from levelset_dcp.executables.logs import LogLocation, log_location, system_key
from levelset_dcp.executables.monitor_process import monitor_command
from levelset_dcp.executables.state import ObservedRun
from levelset_dcp.executables.supervisor import ProcessSupervisor, SupervisedRun
from levelset_dcp.ide import RunSession, SessionRequest, SessionState
from levelset_dcp.ide.protocol import LAUNCH_CONFIGURATIONS
from levelset_dcp.kinds import Executable, ExecutableSpec, Service
from levelset_dcp.records.interface import ProcessRecord
from levelset_dcp.workloads.certificates import BadCertificate, certificate_folder, write_certificates
from levelset_dcp.workloads.environment import Effective, effective_of, read_env_files
from levelset_dcp.workloads.modes import executable_policy
from levelset_dcp.workloads.service_producers import producers
from levelset_dcp.workloads.templates import DependencyNotReady, TemplateContext, executable_context
from levelset_dcp.workloads.terminals import TerminalRunner, open_terminal
from levelset_machine import CannotStart, Command, Terminal

__all__ = ["Find", "Launcher", "lifecycle_key"]

Find = Callable[[Ref[Service]], Service | None]


def lifecycle_key(spec: ExecutableSpec, effective: Effective) -> str:
    """The key of the spec, or a hash of everything that matters, which inherited variables do not."""
    if spec.lifecycle_key:
        return spec.lifecycle_key
    certificates = spec.pem_certificates
    matters: dict[str, Any] = {
        "path": spec.executable_path,
        "folder": spec.working_directory,
        "type": spec.execution_type,
        "ambient": spec.ambient_environment.behavior,
        "args": list(effective.args),
        "env": sorted(effective.explicit.items()),
        "monitor": [spec.monitor_pid, str(spec.monitor_timestamp or "")],
        "certificates": [] if certificates is None else [one.thumbprint for one in certificates.certificates],
        "terminal": "" if spec.terminal is None else spec.terminal.uds_path,
    }
    text = json.dumps(matters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Prepared(Struct, frozen=True):
    """Everything that the start of a process needs."""

    command: Command
    effective: Effective
    certificates: Mapping[str, str]
    """The variables that name the files of its certificates."""
    closing: AsyncExitStack
    terminal: Terminal | None = None
    socket: str = ""


class Launcher:
    """Starts processes, and adopts those of earlier sessions."""

    def __init__(
        self, host: ExecutableHost, states: StateMap[Executable, str, ObservedRun], supervisor: ProcessSupervisor
    ) -> None:
        self._host = host
        self._states = states
        self._supervisor = supervisor

    async def template_context(self, exe: Executable, find: Find) -> TemplateContext:
        """The template context of an Executable; allocates the ports of its Services once."""
        ports = self._host.allocated_ports.setdefault(exe.metadata.uid, {})
        for one in producers(exe):
            if one.port is None and one.service not in ports:
                service = find(Ref(Service, one.service))
                if service is not None:
                    is_udp = service.spec.protocol == "UDP"
                    address = "127.0.0.1" if one.address in ("", "localhost") else one.address
                    ports[one.service] = await asyncio.to_thread(self._host.ports, address, is_udp)
        return executable_context(exe, ports, find)

    def ports(self, exe: Executable) -> Mapping[str, int]:
        """The ports that were allocated for an Executable, by Service."""
        return self._host.allocated_ports.get(exe.metadata.uid, {})

    def forget(self, uid: str) -> None:
        """Releases the allocated ports of a deleted Executable."""
        self._host.allocated_ports.pop(uid, None)

    def log_location(self, exe: Executable) -> LogLocation:
        """The location of an Executable's logs."""
        return log_location(self._host, exe.name, exe.metadata.uid, is_persistent=executable_policy(exe.spec).adopts)

    async def effective(self, exe: Executable, find: Find) -> Effective:
        """The effective environment and arguments; raises DependencyNotReady."""
        spec = exe.spec
        files = await read_env_files(exe.name, spec.env_files)
        ambient = self._host.ambient if spec.ambient_environment.behavior == "Inherit" else None
        context = await self.template_context(exe, find)
        return effective_of(spec.args, spec.env, context=context, ambient=ambient, files=files)

    async def launch(self, exe: Executable, observed: ObservedRun, find: Find) -> ObservedRun:
        """Starts the process; the returned state has the run, or the reason why there is none."""
        async with AsyncExitStack() as stack:
            try:
                prepared = await self._prepare(exe, find, stack)
            except DependencyNotReady as error:
                return observed.transition("Starting", message=str(error))
            except BadCertificate as error:
                return self._failed(observed, [str(error)])
            except OSError as error:
                return self._failed(observed, [f"cannot open the terminal: {error}"])
            attempts = list(observed.attempts)
            types = (exe.spec.execution_type, *exe.spec.fallback_execution_types)
            for execution_type in types[len(attempts) :]:
                try:
                    started = (
                        self._start_session(exe, prepared) if execution_type == "IDE" else self._start(exe, prepared)
                    )
                except CannotStart as error:
                    attempts.append(str(error) if types == ("Process",) else f"{execution_type}: {error}")
                    continue
                # No await between the start of the process and its registration: a cancellation would lose it.
                made = self._register(exe, replace(observed, attempts=tuple(attempts)), started)
                stack.pop_all()  # what was opened is closed when the process exits
                return await self._write_record(exe, made, prepared.effective)
            shown = replace(observed, env=prepared.effective.shown, args=prepared.effective.args)
            return self._failed(shown, attempts)

    def adopt(
        self, exe: Executable, observed: ObservedRun, record: ProcessRecord, effective: Effective
    ) -> ObservedRun | None:
        """Adopts a process of an earlier session; None if it no longer runs."""
        run = self._host.runner.adopt(record.identity)
        if run is None:
            return None
        closing = AsyncExitStack()
        for sink in self.log_location(exe).open():
            closing.callback(sink.close)  # log readers wait for more lines while a sink is open
        return self._register(exe, observed, StartedRun(run, record.started_at, closing, effective))

    def resume(self, exe: Executable, observed: ObservedRun, started: StartedRun) -> ObservedRun:
        """Resumes a run that an earlier controller of this process has started."""
        if observed.state == "Stopping" and not isinstance(started.run, RunSession):
            observed = replace(observed, identity=started.run.identity, started_at=started.at)
        return self._register(exe, observed, started)

    async def _prepare(self, exe: Executable, find: Find, closing: AsyncExitStack) -> _Prepared:
        effective = await self.effective(exe, find)
        spec, certificates = exe.spec, await self._certificates(exe)
        env = {**certificates, **effective.env}
        command = Command(argv=(spec.executable_path, *effective.args), env=env, cwd=spec.working_directory or None)
        if spec.terminal is None:
            return _Prepared(command, effective, certificates, closing)
        if not isinstance(self._host.runner, TerminalRunner):
            raise OSError("this runner has no terminals")
        resources = AsyncExitStack()
        closing.push_async_exit(resources)
        terminal, socket = await open_terminal(spec.terminal, self._host.folder, exe.metadata.uid, resources)
        return _Prepared(command, effective, certificates, resources, terminal, socket)

    def _start(self, exe: Executable, prepared: _Prepared) -> StartedRun:
        runner = self._host.runner
        if prepared.terminal is not None and isinstance(runner, TerminalRunner):
            run = runner.start_on(prepared.terminal, prepared.command)
            return StartedRun(run, runner.now(), prepared.closing, prepared.effective, prepared.socket)
        location, is_persistent = self.log_location(exe), executable_policy(exe.spec).adopts
        if is_persistent:
            location.remove()  # the logs of an earlier run
        out, err = location.open()
        try:
            run = runner.start(prepared.command, out=out, err=err, persistent=is_persistent)
            return StartedRun(run, runner.now(), prepared.closing, prepared.effective)
        except BaseException:
            out.close()
            err.close()
            raise

    def _start_session(self, exe: Executable, prepared: _Prepared) -> StartedRun:
        """Requests a run session of the IDE, which starts it in the background; raises CannotStart."""
        ide = self._host.ide
        if isinstance(ide, str):
            raise CannotStart(ide)
        if exe.spec.terminal is not None:
            raise CannotStart("an IDE has no terminal for us; leave spec.terminal out")
        effective, key = prepared.effective, system_key(exe.metadata.uid)
        request = SessionRequest(
            exe.metadata.annotations.get(LAUNCH_CONFIGURATIONS),
            {**prepared.certificates, **effective.explicit},
            effective.args,
        )

        def note(message: str) -> None:
            sink = self._host.logs.open(key)
            sink.write(f"{message}\n".encode(errors="replace"))
            sink.close()

        run = ide.start(request, self.log_location(exe), note=note)
        return StartedRun(run, self._host.runner.now(), prepared.closing, effective)

    def _register(self, exe: Executable, observed: ObservedRun, started: StartedRun) -> ObservedRun:
        uid, run, effective = exe.metadata.uid, started.run, started.effective
        if effective is not None:
            observed = replace(observed, env=effective.shown, args=effective.args, terminal=started.socket)
        files = ("", "") if exe.spec.terminal is not None else self.log_location(exe).files
        if isinstance(run, RunSession):
            # It runs when the IDE says so; what happened until now is reported by the supervisor.
            made, key = replace(observed, session=SessionState(id=run.state.id), message=""), f"session of {uid}"
        else:
            identity = run.identity
            made = observed.transition("Running", identity=identity, started_at=started.at, message="", files=files)
            key = f"{identity.pid}/{identity.started}"
        self._states.put(exe.ref, made, key=key)
        self._host.runs[uid] = started
        self._supervisor.supervise(SupervisedRun(exe.ref, uid, started))
        return made

    async def _write_record(self, exe: Executable, observed: ObservedRun, effective: Effective) -> ObservedRun:
        """Records a process that outlives the session; it is stopped again if the record cannot be written."""
        if not executable_policy(exe.spec).adopts or observed.identity is None or observed.started_at is None:
            return observed
        record = ProcessRecord(
            name=exe.name,
            identity=observed.identity,
            key=lifecycle_key(exe.spec, effective),
            started_at=observed.started_at,
            log=exe.name,
        )
        try:
            await self._host.records.write(record)
            self._start_monitor(exe, observed)
        except LevelsetError as error:
            supervised = self._supervisor.find(exe.metadata.uid)
            if supervised is not None:
                self._supervisor.stop(supervised)
            return replace(
                observed,
                state="Starting",
                start_error=f"stopped because its record or its monitor could not be created: {error}",
            )
        return observed

    def _start_monitor(self, exe: Executable, observed: ObservedRun) -> None:
        """Starts a monitor process that stops the program when spec.monitorPid exits, even after this session."""
        spec = exe.spec
        if spec.monitor_pid is None or spec.monitor_timestamp is None or observed.identity is None:
            return
        command = monitor_command(observed.identity, spec.monitor_pid, spec.monitor_timestamp, self._host.ambient)
        location = self.log_location(exe)
        key = f"{location.out}_monitor"
        location.store.remove(key)
        sink = location.store.open(key)
        try:
            self._host.runner.start(command, out=sink, persistent=True)
        except BaseException:
            sink.close()
            raise

    def _failed(self, observed: ObservedRun, attempts: list[str]) -> ObservedRun:
        now = self._host.runner.now()
        return observed.transition("FailedToStart", started_at=now, finished_at=now, message="; ".join(attempts))

    async def _certificates(self, exe: Executable) -> Mapping[str, str]:
        certificates = exe.spec.pem_certificates
        if certificates is None:
            return {}
        folder = certificate_folder(self._host.folder, exe.metadata.uid)
        return await asyncio.to_thread(write_certificates, folder, certificates)
