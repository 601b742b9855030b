"""The metrics of controllers, clients and webhooks."""

from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client import Call
from levelset.errors import GiveUp, NotFound, Retry
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller.actions import Action, Outcome, await_change
from levelset.runtime.controller.request import CHANGED, Reason
from levelset.runtime.manager.metric_definitions import (
    BATCH_SIZE,
    BOUNDS,
    QUEUE_BOUNDS,
    RECONCILE_BOUNDS,
    ControllerMetrics,
    fold,
)
from levelset.runtime.manager.metrics import Metrics
from tests.client.fixtures import open_client
from tests.runtime.manager.http_fetch import numbers_of

REF = Ref(GroupVersionKind("example.dev", "v1", "Website"), "blog", "default")


def outcome(result, *, action=None, error=None, seconds=0.0, waited=0.0, reasons=(CHANGED,)) -> Outcome[Any]:
    return Outcome(REF, result, action or Action(), error, seconds, reasons, 0, waited)


def after(*outcomes: Outcome[Any]) -> dict[str, float]:
    metrics = Metrics()
    for one in outcomes:
        metrics.started("websites", REF, one.reasons)
        metrics.finished("websites", REF, one, one.seconds)
    return numbers_of(metrics.registry.render())


def test_all_results_are_exported_as_zero_at_first():
    metrics = Metrics()
    metrics.add_controller("websites", concurrency=4, depth=lambda: 9)
    shown = numbers_of(metrics.registry.render())
    for result in ("success", "error", "requeue", "requeue_after"):
        assert shown[f'controller_runtime_reconcile_total{{controller="websites",result="{result}"}}'] == 0
    assert shown['controller_runtime_reconcile_time_seconds_count{controller="websites"}'] == 0
    assert shown['controller_runtime_max_concurrent_reconciles{controller="websites"}'] == 4
    assert shown['workqueue_depth{name="websites",controller="websites"}'] == 9
    metrics.remove_controller("websites")
    assert "websites" not in metrics.registry.render()


@pytest.mark.parametrize(
    ("one", "result"),
    [
        (outcome("done"), "success"),
        (outcome("gone"), "success"),
        (outcome("requeued", action=Action(5.0)), "requeue_after"),
        (outcome("requeued", action=Action(0.0)), "requeue"),
        (outcome("retry", action=Action(5.0), error=Retry("not yet", seconds=5)), "requeue_after"),
        (outcome("conflict", action=Action(0.1)), "requeue"),
        (outcome("failed", error=ValueError()), "error"),
        (outcome("timed_out", error=TimeoutError()), "error"),
        (outcome("gave_up", error=GiveUp("no")), "error"),
    ],
)
def test_each_outcome_counts_once_with_the_label_of_controller_runtime(one, result):
    shown = after(one)
    counted = {name: value for name, value in shown.items() if name.startswith("controller_runtime_reconcile_total")}
    assert sum(counted.values()) == 1
    assert counted[f'controller_runtime_reconcile_total{{controller="websites",result="{result}"}}'] == 1


def test_terminal_errors_timeouts_and_panics_are_also_counted_separately():
    shown = after(
        outcome("failed", error=NotFound("no")),
        outcome("failed", error=ValueError("a mistake")),
        outcome("timed_out", error=TimeoutError()),
        outcome("gave_up", error=GiveUp("no")),
        outcome("conflict"),
    )
    label = '{controller="websites"}'
    assert shown[f"controller_runtime_reconcile_errors_total{label}"] == 4
    assert shown[f"controller_runtime_terminal_reconcile_errors_total{label}"] == 1
    assert shown[f"controller_runtime_reconcile_panics_total{label}"] == 1
    assert shown[f"controller_runtime_reconcile_timeouts_total{label}"] == 1
    assert shown['workqueue_retries_total{name="websites",controller="websites"}'] == 4


def test_durations_are_counted_in_the_buckets_of_controller_runtime():
    shown = after(outcome("done", seconds=0.003, waited=0.2), outcome("done", seconds=70.0, waited=0.0))
    prefix = 'controller_runtime_reconcile_time_seconds_bucket{controller="websites",le='
    assert shown[f'{prefix}"0.005"}}'] == 1
    assert shown[f'{prefix}"60"}}'] == 1
    assert shown[f'{prefix}"+Inf"}}'] == 2
    assert shown['controller_runtime_reconcile_time_seconds_sum{controller="websites"}'] == pytest.approx(70.003)
    queue = 'workqueue_queue_duration_seconds_bucket{name="websites",controller="websites",le='
    assert shown[f'{queue}"1e-08"}}'] == 1
    assert shown[f'{queue}"0.1"}}'] == 1
    assert shown[f'{queue}"1"}}'] == 2


def test_folding_buckets_gives_the_same_counts_as_a_separate_histogram():
    for bounds in (RECONCILE_BOUNDS, QUEUE_BOUNDS):
        for place, bound in enumerate((*BOUNDS, 2000.0)):
            counts = [0] * (len(BOUNDS) + 1)
            counts[place] = 1
            expected = sum(one < bound for one in bounds)
            assert fold(bounds, counts).index(1) == expected


def test_running_reconciles_and_reasons_are_exported():
    metrics = Metrics()
    metrics.queued("websites", 1)
    metrics.started("websites", REF, (CHANGED,))
    shown = numbers_of(metrics.registry.render())
    assert shown['controller_runtime_active_workers{controller="websites"}'] == 1
    assert shown['workqueue_adds_total{name="websites",controller="websites"}'] == 1
    assert shown['workqueue_longest_running_processor_seconds{name="websites",controller="websites"}'] > 0
    metrics.finished("websites", REF, outcome("done", reasons=(CHANGED, Reason("related", REF))), 0.1)
    shown = numbers_of(metrics.registry.render())
    assert shown['controller_runtime_active_workers{controller="websites"}'] == 0
    assert shown['levelset_reconcile_reasons_total{controller="websites",reason="related"}'] == 1
    assert shown['workqueue_unfinished_work_seconds{name="websites",controller="websites"}'] == 0


def record(result="done", *, seconds=0.0, reasons=(CHANGED,), waited=0.0):
    return REF.key, result, await_change(), None, seconds, reasons, 0, waited


@given(st.lists(st.one_of(st.sampled_from((0.0, *BOUNDS, 2000.0)), st.floats(-1.0, 4000.0)), min_size=1))
def test_durations_counted_in_a_batch_land_in_the_same_buckets_as_one_by_one(times):
    numbers, expected = ControllerMetrics(), [0] * (len(BOUNDS) + 1)
    for one in times:
        expected[bisect_left(BOUNDS, one)] += 1
    numbers.count([record(seconds=one, waited=-one) for one in times])
    assert (numbers.worked_counts, numbers.worked) == (expected, sum(times))
    assert sum(numbers.waited_counts) == len(times)


def test_failures_in_a_batch_of_successes_are_counted():
    numbers = ControllerMetrics()
    numbers.count([record(), record("failed"), record("done")])
    assert (numbers.results["success"], numbers.results["error"]) == (2, 1)


def test_each_reason_counts_whether_or_not_reconciles_share_their_reasons():
    about = Ref(GroupVersionKind("", "v1", "ConfigMap"), "blog", "default")
    shared, twice = (CHANGED,), (Reason("related", about), Reason("related", REF))
    numbers = ControllerMetrics()
    numbers.count([record(reasons=one) for one in (shared, twice, shared, (CHANGED,), (), shared)])
    assert numbers.reasons == {"changed": 4, "related": 2}
    numbers.count([record(reasons=one) for one in (twice, twice, shared)])
    assert numbers.reasons == {"changed": 5, "related": 6}


def test_custom_reasons_do_not_create_unbounded_series():
    metrics = Metrics()
    for number in range(100):
        metrics.finished("websites", REF, outcome("done", reasons=(Reason(f"order {number}"),)), 0.0)
    shown = [name for name in numbers_of(metrics.registry.render()) if "levelset_reconcile_reasons_total" in name]
    assert len(shown) == 26


def test_hot_loops_and_leadership_are_exported():
    metrics = Metrics()
    metrics.count_hot_loop("websites")
    leads = [False]
    metrics.add_election("shop", lambda: leads[0])
    assert numbers_of(metrics.registry.render())['leader_election_master_status{name="shop"}'] == 0
    leads[0] = True
    shown = numbers_of(metrics.registry.render())
    assert shown['leader_election_master_status{name="shop"}'] == 1
    assert shown['levelset_hot_loops_total{controller="websites"}'] == 1


def test_two_managers_have_separate_metrics():
    one, other = Metrics(), Metrics()
    one.queued("websites", 1)
    assert "websites" not in other.registry.render()


async def test_requests_are_counted_by_code_method_and_host():
    metrics = Metrics()
    async with open_client(wire_hooks=[metrics.counting("here")]) as client:
        with pytest.raises(NotFound):
            await client.get(Ref(GroupVersionKind("", "v1", "ConfigMap"), "none", "default"))
    shown = numbers_of(metrics.registry.render())
    assert shown['rest_client_requests_total{code="404",method="GET",host="here"}'] == 1


async def test_a_request_without_a_response_is_counted_as_an_error():
    metrics = Metrics()
    hook = metrics.counting("here")

    async def send(call):
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        await hook(Call(method="GET", path="/"), send)
    assert 'rest_client_requests_total{code="<error>",method="GET",host="here"} 1' in metrics.registry.render()


def test_no_outcome_is_lost_between_batches_and_a_scrape():
    metrics = Metrics()
    for _ in range(BATCH_SIZE + 7):
        metrics.finished("websites", REF, outcome("done", seconds=1.0), 1.0)
    shown = numbers_of(metrics.registry.render())
    assert shown['controller_runtime_reconcile_total{controller="websites",result="success"}'] == BATCH_SIZE + 7
    assert shown['controller_runtime_reconcile_time_seconds_sum{controller="websites"}'] == BATCH_SIZE + 7
