"""Worker processes of an exploration: each runs one plan at a time, and sends back its outcome.

Workers are forked after the undisturbed run, so that they have what it has loaded, and need no import. Where there is
no fork, plans are run in the process itself, with the same outcomes.
"""

import gc
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from levelset.errors import LevelsetError
from levelset.testing.explore.faults.plan import Plan
from levelset.testing.explore.planning.plan_outcome import PlanOutcome

__all__ = ["InProcess", "WorkerPool", "can_fork"]

RunPlan = Callable[[Plan], PlanOutcome]


def can_fork() -> bool:
    """Whether plans can be run in other processes; system libraries of macOS do not survive a fork."""
    return hasattr(os, "fork") and sys.platform != "darwin"


class InProcess:
    """Runs each plan when its outcome is needed."""

    def __init__(self, run: RunPlan) -> None:
        self._run = run
        self._submitted: list[Plan] = []

    def submit(self, plan: Plan) -> int:
        """Adds a plan, which is run when its outcome is needed; returns its ticket."""
        self._submitted.append(plan)
        return len(self._submitted) - 1

    def result(self, ticket: int) -> PlanOutcome:
        """The outcome of a submitted plan."""
        return self._run(self._submitted[ticket])

    def close(self) -> None:
        """Does nothing."""


class _Worker:
    """One worker process, and the plan that it runs with its ticket."""

    def __init__(self, run: RunPlan) -> None:
        context: Any = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()
        self.connection: Connection[Any, Any] = mine
        self.running: tuple[int, Plan] | None = None
        self.process = context.Process(target=_serve, args=(run, theirs, mine), name="explorer", daemon=True)
        self.process.start()
        theirs.close()

    def start(self, ticket: int, plan: Plan) -> None:
        self.running = ticket, plan
        self.connection.send(plan.id)

    def receive(self) -> tuple[int, PlanOutcome]:
        assert self.running is not None, "it runs a plan"
        (ticket, plan), self.running = self.running, None
        try:
            found = self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join(1.0)
            raise LevelsetError(
                f"a worker process ended (exit code {self.process.exitcode}) while it ran {plan.id}; "
                "run that plan alone with --replay"
            ) from error
        if isinstance(found, BaseException):
            raise found
        return ticket, found


def _serve(run: RunPlan, connection: "Connection[Any, Any]", other: "Connection[Any, Any]") -> None:
    """Runs plans until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it, too, and decides
    other.close()
    gc.freeze()  # a collection after a run then reads only what the run has left, and copies no page of the parent
    while True:
        try:
            plan = Plan.parse(connection.recv())
        except (EOFError, OSError):
            return
        try:
            found: Any = run(plan)
        except Exception as error:  # noqa: BLE001 -- it is raised in the parent
            found = LevelsetError(f"{plan.id}: {type(error).__name__}: {error}")
        connection.send(found)


class WorkerPool:
    """Runs plans in several processes; `run` must give the same outcome in each of them."""

    def __init__(self, run: RunPlan, jobs: int) -> None:
        self._workers: list[_Worker] = []
        self._run = run
        self._jobs = jobs
        self._waiting: deque[tuple[int, Plan]] = deque()
        self._results: dict[int, PlanOutcome] = {}
        self._submitted = 0

    def submit(self, plan: Plan) -> int:
        """Runs a plan as soon as a process is free; returns its ticket."""
        self._submitted += 1
        self._waiting.append((self._submitted, plan))
        self._dispatch()
        return self._submitted

    def result(self, ticket: int) -> PlanOutcome:
        """Waits for the outcome of a submitted plan."""
        while ticket not in self._results:
            busy: dict[Any, _Worker] = {one.connection: one for one in self._workers if one.running is not None}
            for connection in wait(list(busy)):
                done, outcome = busy[connection].receive()
                self._results[done] = outcome
            self._dispatch()
        return self._results.pop(ticket)

    def close(self) -> None:
        """Ends the processes; plans that they run are given up."""
        for one in self._workers:
            one.connection.close()
            one.process.terminate()
        for one in self._workers:
            one.process.join()

    def _dispatch(self) -> None:
        while self._waiting:
            free = next((one for one in self._workers if one.running is None), None)
            if free is None:
                if len(self._workers) == self._jobs:
                    return
                free = _Worker(self._run)
                self._workers.append(free)
            free.start(*self._waiting.popleft())
