"""The text of metrics: of a levelset manager, of one in Go, and of something else."""

import math

import pytest

from levelset.dashboard.managers.scraped_metrics import MOST_CONTROLLERS, parse_metrics, quantile

GO = """\
# HELP controller_runtime_reconcile_total Total number of reconciliations per controller
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="website",result="error"} 3
controller_runtime_reconcile_total{controller="website",result="success"} 39
controller_runtime_reconcile_errors_total{controller="website"} 3
controller_runtime_active_workers{controller="website"} 1
controller_runtime_max_concurrent_reconciles{controller="website"} 2
controller_runtime_reconcile_time_seconds_bucket{controller="website",le="0.005"} 20
controller_runtime_reconcile_time_seconds_bucket{controller="website",le="0.01"} 40
controller_runtime_reconcile_time_seconds_bucket{controller="website",le="+Inf"} 42
workqueue_depth{controller="website",name="website",priority=""} 5
workqueue_depth{name="APIServiceRegistrationController"} 1
leader_election_master_status{name="website"} 1
rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 100
rest_client_requests_total{code="503",host="10.0.0.1:443",method="GET"} 2
go_goroutines 120
"""


def test_a_manager_in_go_is_understood() -> None:
    found = parse_metrics(GO)
    assert list(found.controllers) == ["website"]
    one = found.controllers["website"]
    assert (one.reconciles, one.errors, one.waiting, one.running, one.workers) == (42, 3, 5, 1, 2)
    assert (found.is_leader, found.requests, found.failed_requests) == (True, 102, 2)
    assert quantile(0.5, one.buckets, {}) == pytest.approx(0.00525)
    assert quantile(0.99, one.buckets, {}) == 0.01
    assert quantile(0.5, one.buckets, one.buckets) is None


def test_anything_else_is_empty_and_what_is_malformed_is_left_out() -> None:
    for text in ("", "<html>", '{"kind": "Status"}', "controller_runtime_reconcile_total{"):
        assert parse_metrics(text).controllers == {}
    text = 'controller_runtime_reconcile_total{controller="a\\"b\\\\c\\nd"} NaN\n'
    text += 'controller_runtime_reconcile_total{controller="a\\"b"} 1\ncontroller_runtime_reconcile_total{} x\n'
    text += 'controller_runtime_reconcile_time_seconds_bucket{controller="a\\"b",le="wide"} 1\n'
    assert parse_metrics(text).controllers.keys() == {'a"b'}


def test_controllers_and_buckets_are_bounded() -> None:
    lines = [f'controller_runtime_reconcile_total{{controller="c{number}"}} 1' for number in range(1000)]
    lines += [f'controller_runtime_reconcile_time_seconds_bucket{{controller="c0",le="{n}"}} 1' for n in range(1000)]
    found = parse_metrics("\n".join(lines))
    assert len(found.controllers) == MOST_CONTROLLERS
    assert len(found.controllers["c0"].buckets) == 200


def test_a_quantile_beyond_the_last_bound_is_that_bound() -> None:
    assert quantile(0.99, {1.0: 0, math.inf: 10}, {}) == 1.0
