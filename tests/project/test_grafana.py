"""The Grafana dashboard uses only metrics and labels that a manager serves, and covers what operators need."""

import json
import re
from typing import Any

import pytest
from scripts.docs_site import served_families

from tests.project.files import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/levelset.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
VARIABLES: list[str] = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
EXPRESSIONS: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]] + VARIABLES
METRIC = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
LABELS = re.compile(r"by \(([a-z, ]+)\)|\{([a-z]+)=|, ([a-z]+)\)$")
FUNCTIONS = {"histogram_quantile", "label_values"}


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """The names of the served series with their labels."""
    found: dict[str, set[str]] = {}
    for family in served_families():
        for sample in family.samples:
            found.setdefault(family.name + sample.suffix, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_metrics_and_labels_that_are_served(expression: str, served: dict[str, set[str]]) -> None:
    names = set(METRIC.findall(re.sub(r"\$\w+", "", expression))) - FUNCTIONS
    assert names
    assert names <= served.keys()
    used = {label for groups in LABELS.findall(expression) for label in ",".join(groups).replace(" ", "").split(",")}
    assert all(used - {""} <= served[name] for name in names)


@pytest.mark.parametrize(
    "metric",
    [
        "workqueue_depth",
        "workqueue_retries_total",
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_time_seconds_bucket",
        "levelset_cache_synced",
        "levelset_cache_bytes",
        "levelset_cache_reconnects_total",
        "leader_election_master_status",
        "levelset_shard_member_keys",
        "rest_client_requests_total",
    ],
)
def test_the_dashboard_shows_what_operators_ask_first(metric: str) -> None:
    assert any(metric in expression for expression in EXPRESSIONS)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({one["id"] for one in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells += [(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])]
    assert len(cells) == len(set(cells))
