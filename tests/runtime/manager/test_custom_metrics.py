"""Metrics of a program's own: counters, gauges, histograms, and the collectors of prometheus-client."""

import logging
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client import parser

from levelset import Context, Controller, LeaderElection, Resource, Sharding, Spec, Status, open_local
from levelset.errors import ConfigError
from levelset.runtime.manager import DEFAULT_BUCKETS, REGISTRY, Counter, Family, Gauge, Histogram, Manager, Registry
from levelset.runtime.manager.prometheus_text import Sample

GUIDE = (Path(__file__).parents[3] / "docs/metrics.md").read_text(encoding="utf-8")
OURS = ("controller_runtime_", "leader_election_", "levelset_", "rest_client_", "workqueue_")


class Site(Resource[Spec, Status], api="metrics.example.dev/v1"):
    """A kind to reconcile."""


async def reconcile(site: Site, ctx: Context) -> None:
    """Reconciles nothing."""


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_a_counter_is_served_with_its_total_suffix_once(registry: Registry) -> None:
    Counter("sold", "What was sold.", registry=registry).inc()
    Counter("bought_total", "What was bought.", registry=registry).inc(2.5)
    assert registry.render() == (
        "# HELP bought_total What was bought.\n# TYPE bought_total counter\nbought_total 2.5\n"
        "# HELP sold_total What was sold.\n# TYPE sold_total counter\nsold_total 1\n"
    )


def test_a_metric_without_labels_is_served_as_zero_from_the_start(registry: Registry) -> None:
    Gauge("open_orders", "Orders.", registry=registry)
    assert "open_orders 0\n" in registry.render()


def test_a_test_reads_the_value_of_a_sample_by_its_name_and_labels(registry: Registry) -> None:
    sold = Counter("sold", "Sold.", ["shop"], registry=registry)
    Counter("sold_out", "Not the same.", registry=registry).inc(7)
    took = Histogram("took_seconds", "Took.", buckets=[1, 10], registry=registry)
    sold.labels("a").inc(2)
    took.observe(5)
    assert registry.get_sample_value("sold_total", {"shop": "a"}) == 2
    assert registry.get_sample_value("took_seconds_bucket", {"le": "10"}) == 1
    assert registry.get_sample_value("took_seconds_sum") == 5
    assert registry.get_sample_value("sold_total", {"shop": "b"}) is None
    assert registry.get_sample_value("sold_total") is None
    assert registry.get_sample_value("sold", {"shop": "a"}) is None


def test_the_value_of_a_sample_is_found_as_by_prometheus_client(registry: Registry) -> None:
    theirs = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("visits", "Visits.", ["page"], registry=theirs).labels("home").inc(3)
    registry.add(theirs)
    name, labels = "visits_total", {"page": "home"}
    assert registry.get_sample_value(name, labels) == theirs.get_sample_value(name, labels) == 3


def test_labels_are_given_by_position_or_by_name(registry: Registry) -> None:
    sold = Counter("sold", "Sold.", ["shop", "kind"], registry=registry)
    sold.labels("a", 1).inc()
    sold.labels(kind=1, shop="a").inc()
    assert [line for line in registry.render().splitlines() if line[0] != "#"] == ['sold_total{shop="a",kind="1"} 2']


def test_a_gauge_rises_falls_and_reads_a_function_at_the_scrape(registry: Registry) -> None:
    depth = Gauge("depth", "Depth.", registry=registry)
    depth.set(5)
    depth.inc(2)
    depth.dec()
    with depth.track_inprogress():
        assert "\ndepth 7\n" in registry.render()
    assert "\ndepth 6\n" in registry.render()
    depth.set_function(lambda: 42)
    assert "\ndepth 42\n" in registry.render()


def test_a_histogram_counts_observations_by_bucket(registry: Registry) -> None:
    size = Histogram("size", "Sizes.", ["of"], buckets=(1, 10, math.inf), registry=registry)
    for amount in (0.5, 1, 5, 100):
        size.labels("box").observe(amount)
    assert registry.render().splitlines()[2:] == [
        'size_bucket{of="box",le="1"} 2',
        'size_bucket{of="box",le="10"} 3',
        'size_bucket{of="box",le="+Inf"} 4',
        'size_sum{of="box"} 106.5',
        'size_count{of="box"} 4',
    ]


def test_a_histogram_times_a_block_also_if_it_raises(registry: Registry) -> None:
    took = Histogram("took", "Seconds.", registry=registry)
    with pytest.raises(KeyError), took.time():
        raise KeyError
    assert took.buckets == DEFAULT_BUCKETS
    assert "took_count 1\n" in registry.render()


def test_values_of_removed_labels_are_no_longer_served(registry: Registry) -> None:
    up = Gauge("up", "Up.", ["site"], registry=registry)
    for site in ("a", "b", "c"):
        up.labels(site).set(1)
    up.remove("a")
    assert [sample.labels["site"] for sample in up.families()[0].samples] == ["b", "c"]
    up.clear()
    assert up.families()[0].samples == []


def test_increments_from_several_threads_are_all_counted(registry: Registry) -> None:
    sold = Counter("sold", "Sold.", ["shop"], registry=registry)

    def sell() -> None:
        for _ in range(2000):
            sold.labels("a").inc()

    threads = [threading.Thread(target=sell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sold.families()[0].samples[0].value == 8000


def test_a_counter_does_not_fall(registry: Registry) -> None:
    with pytest.raises(ValueError, match="use a Gauge"):
        Counter("sold", "Sold.", registry=registry).inc(-1)


WRONG: list[tuple[Callable[[Registry], object], str]] = [
    (lambda registry: Counter("1st", "x", registry=registry), "does not begin with a digit"),
    (lambda registry: Gauge("a-b", "x", registry=registry), "a metric name has letters"),
    (lambda registry: Gauge("levelset_x", "x", registry=registry), "begin with the name of your operator"),
    (lambda registry: Counter("workqueue_x", "x", registry=registry), "levelset's own"),
    (lambda registry: Gauge("a", "x", ["__b"], registry=registry), "label '__b'"),
    (lambda registry: Gauge("a", "x", "region", registry=registry), r"pass a list, such as \['region'\]"),
    (lambda registry: Gauge("a", "x", ["b", "b"], registry=registry), "once"),
    (lambda registry: Histogram("a", "x", ["le"], registry=registry), "not le in a histogram"),
    (lambda registry: Histogram("a", "x", buckets=(2, 1), registry=registry), "ascending order"),
    (lambda registry: Histogram("a", "x", buckets=(math.inf,), registry=registry), "ascending order"),
]


@pytest.mark.parametrize(("define", "message"), WRONG)
def test_a_wrong_definition_fails_at_once(define: Callable[[Registry], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        define(Registry())


def test_a_name_stands_for_one_metric_in_a_registry(registry: Registry) -> None:
    Counter("sold", "Sold.", registry=registry)
    with pytest.raises(ConfigError, match=r"defined already, as <Counter sold_total \(none\)>"):
        Counter("sold_total", "Sold.", ["shop"], registry=registry)
    with pytest.raises(ConfigError, match="defined already"):
        Gauge("sold_total", "Sold.", registry=registry)
    Histogram("size", "Size.", registry=registry)
    with pytest.raises(ConfigError, match="defined already"):
        Histogram("size", "Size.", buckets=[1], registry=registry)
    Counter("sold", "Sold.", ["shop"], registry=Registry())


def test_a_module_that_is_loaded_again_goes_on_counting(registry: Registry) -> None:
    first = Counter("sold", "Sold.", registry=registry)
    first.inc()
    again = Counter("sold", "What was sold.", registry=registry)
    again.inc()
    first.inc()
    assert registry.render() == "# HELP sold_total Sold.\n# TYPE sold_total counter\nsold_total 3\n"


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), (("a",), {}), (("a", "b", "c"), {}), ((), {"shop": "a"}), ((), {"a": 1, "b": 2})]
)
def test_labels_that_do_not_fit_are_refused(registry: Registry, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    sold = Counter("sold", "Sold.", ["shop", "kind"], registry=registry)
    with pytest.raises(ConfigError, match="its labels are shop, kind"):
        sold.labels(*values, **named)


def test_labels_by_position_and_by_name_do_not_mix(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="not both"):
        Counter("sold", "Sold.", ["shop", "kind"], registry=registry).labels("a", kind="b")


def test_a_metric_with_labels_needs_them(registry: Registry) -> None:
    with pytest.raises(ConfigError, match=r"call sold_total.labels\(shop=...\) first"):
        Counter("sold", "Sold.", ["shop"], registry=registry).inc()


def test_a_registry_takes_another_one_and_refuses_what_is_no_collector(registry: Registry) -> None:
    outer = Registry()
    Gauge("inner", "Inner.", registry=registry).set(3)
    outer.add(registry)
    assert "inner 3\n" in outer.render()
    with pytest.raises(ConfigError, match="not a collector of metrics"):
        outer.add(42)  # type: ignore[arg-type]


def test_a_collector_that_raises_is_logged_and_the_others_are_served(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Family]:
        raise RuntimeError("no connection")

    registry.add(broken)
    registry.add(lambda: [Family("x", "gauge", "x", [Sample(1, {})])])
    with caplog.at_level(logging.ERROR):
        assert "x 1\n" in registry.render()
    assert "goes without its metrics" in caplog.text


async def test_a_manager_serves_the_metrics_that_are_defined_at_module_level() -> None:
    registry = Registry()
    Gauge("test_custom_metrics_here", "Here.", registry=registry).set(7)
    remove = REGISTRY.add(registry)
    try:
        assert "test_custom_metrics_here 7\n" in Manager().metrics.registry.render()
    finally:
        remove()


def test_the_metrics_of_prometheus_client_are_served_as_it_writes_them_itself(registry: Registry) -> None:
    theirs = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("sold", "Sold.", ["shop"], registry=theirs).labels("a").inc(3)
    prometheus_client.Gauge("depth", "Depth.", registry=theirs).set(0.5)
    prometheus_client.Histogram("took", "Took.", registry=theirs, buckets=(0.1, 1.0)).observe(0.3)
    prometheus_client.Summary("size", "Size.", registry=theirs).observe(9)
    prometheus_client.Info("build", "Build.", registry=theirs).info({"version": "1"})
    prometheus_client.Enum("phase", "Phase.", states=["a", "b"], registry=theirs).state("b")
    registry.add(theirs)
    assert parsed(registry.render()) == parsed(prometheus_client.generate_latest(theirs).decode())


def test_a_single_collector_of_prometheus_client_is_accepted(registry: Registry) -> None:
    depth = prometheus_client.Gauge("depth", "Depth.", registry=None)
    depth.set(2)
    registry.add(depth)
    assert "\ndepth 2\n" in registry.render()


async def test_every_metric_that_the_guide_names_is_served_by_a_manager() -> None:
    named = {name for name in re.findall(r"`(\w+)`", GUIDE) if name.startswith(OURS)}
    served: set[str] = set()
    for options in ({"leader": LeaderElection(name="sites")}, {"shards": Sharding(name="sites")}):
        async with open_local(Controller(Site, reconcile), **options) as local:
            served |= {one.name for one in local.manager.metrics.registry.families()}
    assert len(named) > 15
    assert named <= served


def parsed(text: str) -> list[Any]:
    """The families of a scrape, as prometheus-client's own parser reads them."""
    return sorted(
        (one.name, one.type, one.documentation, [(s.name, s.labels, s.value) for s in one.samples])
        for one in parser.text_string_to_metric_families(text)
    )
