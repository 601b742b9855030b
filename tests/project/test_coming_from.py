"""The migration page has every name of another runtime, with equivalent code that runs.

Each row is evaluated inside of a reconciler: in a manager, on a server in this process, in virtual time.
"""

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from levelset import Controller, Manager
from levelset.testing.virtual_time import virtual
from tests.project.files import ROOT, relative
from tests.project.markdown import blocks
from tests.stories.restartable_server import open_restartable_server

PAGE = ROOT / "docs" / "coming-from.md"
THEIRS = """
Controller::new for_stream for_shared_stream owns owns_stream owns_shared_stream watches watches_stream
watches_shared_stream reconcile_on reconcile_all_on graceful_shutdown_on shutdown_on_signal with_config
Config::debounce Config::concurrency trigger_backoff store() run( applier trigger_self trigger_owners trigger_others
trigger_with Action::requeue Action::await_change error_policy ReconcileRequest ReconcileReason::Unknown
ReconcileReason::ObjectUpdated ReconcileReason::RelatedObjectUpdated ReconcileReason::ReconcilerRequestedRetry
ReconcileReason::ErrorPolicyRequestedRetry ReconcileReason::BulkReconcile ReconcileReason::Custom select_all
debounced_scheduler hold_unless Runner ObjectNotFound finalizer( Event::Apply Event::Cleanup Recorder::new publish
Reporter watcher( metadata_watcher watch_object watcher::Config watcher::Event default_backoff backoff(
applied_objects touched_objects modify( reflect( reflector( reflect_shared store_shared subscribe predicate_filter
predicates::generation predicates::resource_version predicates::labels predicates::annotations predicates::finalizers
combine fallback reflector::store() Writer Store::state() Store::get Store::find Store::state_filter
Store::state_filter_selector Store::len wait_until_ready is_ready ObjectRef::new within ObjectRef::from_obj
await_condition delete_and_finalize ControllerManagedBy For( Owns( Watches( WatchesMetadata WatchesRawSource
WithEventFilter WithPredicates OnlyMetadata MatchEveryOwner OnlyControllerOwner Named( WithOptions WithLogConstructor
Complete( Build( projectAsNormal projectAsMetadata controller.New NewUnmanaged source.Kind source.Channel
source.Informer source.Func EnqueueRequestForObject EnqueueRequestForOwner EnqueueRequestsFromMapFunc handler.Funcs
WithLowPriorityWhenUnchanged predicate.Funcs NewPredicateFuncs ResourceVersionChangedPredicate
GenerationChangedPredicate AnnotationChangedPredicate LabelChangedPredicate LabelSelectorPredicate predicate.And
predicate.Or predicate.Not reconcile.Reconciler reconcile.Func AsReconciler reconcile.Request reconcile.Result
RequeueAfter Requeue: Priority TerminalError MaxConcurrentReconciles CacheSyncTimeout RecoverPanic
ReconciliationTimeout NeedLeaderElection EnableWarmup RateLimiter SkipNameValidation UsePriorityQueue NewManager
mgr.Add mgr.Start mgr.Elected GetClient GetAPIReader GetCache GetEventRecorderFor GetScheme IndexField
SetupSignalHandler cluster.New ByObject GracefulShutdownTimeout HealthProbeBindAddress BindAddress AddHealthzCheck
AddReadyzCheck LeaderElectionID LeaseDuration RenewDeadline RetryPeriod LeaderElectionReleaseOnCancel
LeaderElectionNamespace LeaderElectionRunnable SetControllerReference SetOwnerReference CreateOrUpdate CreateOrPatch
AddFinalizer RemoveFinalizer ContainsFinalizer RetryOnConflict IgnoreNotFound IsNotFound MatchingLabels
ReconcileIDFromContext log.FromContext
on.create on.update on.resume on.delete on.field on.event on.validate on.mutate on.startup on.cleanup on.login on.probe
kopf.timer kopf.daemon kopf.index kopf.subhandler kopf.register kopf.execute kopf.adopt kopf.append_owner_reference
kopf.label kopf.harmonize_naming kopf.adjust_namespace kopf.event kopf.info kopf.warn kopf.exception
kopf.TemporaryError kopf.PermanentError kopf.PRESENT kopf.ABSENT kopf.all_ kopf.any_ kopf.not_ kopf.none_ memo logger
peering settings.persistence.finalizer KopfRunner
"""


@dataclass(frozen=True)
class Row:
    """One table row: the name in the other runtime, our code (if any), and a remark."""

    line: int
    theirs: str
    ours: str
    remark: str


def rows() -> list[Row]:
    found: list[Row] = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and "`" in cells[0]:
            found.append(Row(number, cells[0], cells[1].strip("`"), cells[2]))
    return found


ROWS = rows()
FRAME = compile(next(block.text for block in blocks(PAGE) if block.info == "python"), relative(PAGE), "exec")


@asynccontextmanager
async def reconciling(names: dict[str, Any]) -> AsyncGenerator[None, None]:
    """Runs a row inside of a running manager, and closes everything at the end."""
    called: asyncio.Future[tuple[Any, Any]] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def reconcile(site: Any, ctx: Any) -> None:
        if not called.done():
            called.set_result((site, ctx))
            await over.wait()

    website = names["Website"]
    relations = names["websites"].relations
    async with open_restartable_server(website) as (_, client), Manager(client, health=None) as manager:
        await client.create(website.new("blog", names["WebsiteSpec"](), namespace="default", labels={"tier": "public"}))
        manager.add(Controller(website, reconcile, *relations))
        names["site"], names["ctx"] = await called
        names |= {"client": client, "manager": manager, "cluster": names["ctx"].cluster}
        try:
            yield
        finally:
            over.set()


@pytest.mark.parametrize("row", [row for row in ROWS if row.ours], ids=lambda row: f"{row.line}: {row.theirs}")
@virtual
async def test_a_row_is_code_that_runs(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("coming_from")
    monkeypatch.setitem(sys.modules, "coming_from", module)
    exec(FRAME, module.__dict__)
    async with reconciling(module.__dict__):
        code = compile(row.ours, f"{relative(PAGE)}:{row.line}", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        found = eval(code, module.__dict__)
        if inspect.iscoroutine(found):
            found = await found
        assert found is not NotImplemented
        if hasattr(found, "aclose"):
            await found.aclose()


def test_a_row_without_code_has_a_reason() -> None:
    assert [f"{row.line}: {row.theirs}" for row in ROWS if not row.ours and not row.remark] == []


def test_every_name_of_the_other_runtimes_is_on_the_page() -> None:
    words = " ".join(span for row in ROWS for span in re.findall(r"`([^`]+)`", row.theirs))
    assert [name for name in THEIRS.split() if name not in words] == []


def test_each_row_occurs_once() -> None:
    theirs = [row.theirs for row in ROWS]
    assert sorted(set(theirs)) == sorted(theirs)
