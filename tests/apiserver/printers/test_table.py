from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from levelset.apiserver.printers import table
from levelset.apiserver.printers.builtin_columns import PRINTERS
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Column, ServedResource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CATALOG = Catalog(builtin_kinds())


def kind(group: str, plural: str) -> ServedResource:
    found = CATALOG.find(group, "v1", plural)
    assert found is not None
    return found


def cells(group: str, plural: str, tree: Any) -> dict[str, Any]:
    served = kind(group, plural)
    names = [column.name for column in table.columns_of(served)]
    return dict(zip(names, table.cells(served, tree, NOW), strict=True))


def custom(*columns: Column) -> ServedResource:
    return ServedResource(
        "example.com", "v1", "Widget", "widgets", "widget", "WidgetList",
        namespaced=True, storage_version="v1", custom=True, column_source=lambda: columns,
    )  # fmt: skip


def test_every_built_in_kind_can_show_an_empty_object() -> None:
    for served in CATALOG.all():
        assert len(table.cells(served, {}, NOW)) == len(table.definitions(served)), served.plural


def test_every_printer_fills_existing_columns() -> None:
    for (group, plural), printers in PRINTERS.items():
        found = [one for one in CATALOG.all() if (one.group, one.plural) == (group, plural)]
        for served in found:
            assert printers.keys() <= {column.name for column in served.columns} | {"Selector"}, plural


def test_every_column_of_a_built_in_kind_has_a_printer() -> None:
    common = {"Name", "Age", "Created At"}
    for served in CATALOG.all():
        known = PRINTERS.get((served.group, served.plural), {}).keys() | common
        assert {column.name for column in served.columns} <= known, served.plural


def test_a_pod_that_runs_is_running() -> None:
    running: Any = {"name": "a", "ready": True, "restartCount": 2, "state": {"running": {}}}
    running["lastState"] = {"terminated": {"finishedAt": "2025-12-31T23:59:30Z"}}
    tree: Any = {
        "metadata": {"name": "p", "creationTimestamp": "2025-12-31T23:00:00Z"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]},
    }
    shown = cells("", "pods", tree)
    assert (shown["Ready"], shown["Status"], shown["Restarts"], shown["Age"]) == (
        "1/2",
        "Running",
        "2 (30s ago)",
        "60m",
    )
    assert (shown["IP"], shown["Node"], shown["Nominated Node"]) == ("10.0.0.1", "n1", "<none>")


STATES: list[tuple[Any, Any, str]] = [
        ({"phase": "Pending"}, {}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
        ({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, {},
         "CrashLoopBackOff"),
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, {}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}, {}, "Signal:9"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}, {}, "Init:0/1"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
         {}, "Init:Error"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}, {}, "Pending"),
        ({"phase": "Running"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Terminating"),
        ({"phase": "Succeeded"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Succeeded"),
        ({"phase": "Running", "reason": "NodeLost"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Unknown"),
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "metadata", "expected"), STATES)
def test_the_status_column_of_a_pod_is_one_word(status: Any, metadata: Any, expected: str) -> None:
    tree = {"metadata": metadata, "spec": {"initContainers": [{"name": "i"}], "containers": []}, "status": status}
    assert cells("", "pods", tree)["Status"] == expected


def test_a_service_shows_its_addresses_and_ports() -> None:
    ports = [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]
    balanced: Any = {"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": ports}}
    assert cells("", "services", balanced)["External-IP"] == "<pending>"
    assert cells("", "services", balanced)["Port(s)"] == "80:30000/TCP"
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}}
    assert cells("", "services", balanced)["External-IP"] == "1.2.3.4,h"
    named = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
    assert cells("", "services", named)["External-IP"] == "example.com"
    assert cells("", "services", named)["Cluster-IP"] == "<none>"


def test_a_job_shows_its_completions() -> None:
    tree: Any = {"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": "2025-12-31T23:59:00Z"}}
    shown = cells("batch", "jobs", tree)
    assert (shown["Status"], shown["Completions"], shown["Duration"]) == ("Running", "1/3", "60s")
    tree["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    tree["status"]["completionTime"] = "2025-12-31T23:59:10Z"
    shown = cells("batch", "jobs", tree)
    assert (shown["Status"], shown["Duration"]) == ("Complete", "10s")


def test_an_event_shows_when_it_was_last_seen() -> None:
    tree = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
        "source": {"component": "c", "host": "h"},
        "message": " it happened\n",
        "firstTimestamp": "2025-12-31T23:00:00Z",
        "lastTimestamp": "2025-12-31T23:59:00Z",
    }
    shown = cells("", "events", tree)
    assert (shown["Last Seen"], shown["First Seen"], shown["Object"], shown["Count"]) == ("60s", "60m", "pod/p", 1)
    assert (shown["Source"], shown["Message"], shown["Subobject"]) == ("c, h", "it happened", "spec.containers{a}")


def test_a_binding_shows_its_subjects() -> None:
    subjects = [
        {"kind": "User", "name": "jane"},
        {"kind": "Group", "name": "team"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    tree = {"roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": subjects}
    shown = cells("rbac.authorization.k8s.io", "rolebindings", tree)
    assert [shown[name] for name in ("Role", "Users", "Groups", "ServiceAccounts")] == [
        "ClusterRole/admin",
        "jane",
        "team",
        "n/s",
    ]


def test_the_columns_of_a_custom_resource_follow_its_name() -> None:
    served = custom(Column("Size", "integer", path=".spec.size"))
    assert [one["name"] for one in table.definitions(served)] == ["Name", "Size"]
    assert table.cells(served, {"metadata": {"name": "a"}, "spec": {"size": 3.0}}, NOW) == ["a", 3]


def test_a_custom_resource_without_columns_shows_its_age() -> None:
    tree = {"metadata": {"name": "a", "creationTimestamp": "2025-12-31T23:59:00Z"}}
    assert table.cells(custom(), tree, NOW) == ["a", "60s"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("string", True, "true"),
        ("string", 5, "5"),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("boolean", "true", None),
        ("date", "2025-12-31T23:59:00Z", "60s"),
        ("date", "never", "<invalid>"),
        ("date", 7, "<invalid>"),
        ("unheard of", 7, None),
    ],
)
def test_a_cell_is_formatted_by_its_column_type(kind: str, value: Any, expected: Any) -> None:
    served = custom(Column("C", kind, path=".spec.v"))
    assert table.cells(served, {"metadata": {"name": "a"}, "spec": {"v": value}}, NOW)[1] == expected


def test_a_column_with_an_unreadable_path_stays_empty() -> None:
    served = custom(Column("C", path=".a["))
    assert table.cells(served, {"metadata": {"name": "a"}}, NOW) == ["a", None]


def test_an_object_of_another_kind_shows_its_name_and_creation() -> None:
    served = replace(kind("apps", "deployments"))
    tree = {"kind": "Odd", "metadata": {"name": "web", "creationTimestamp": "2025-12-31T23:59:00Z"}}
    assert table.cells(served, tree, NOW) == ["web", "2025-12-31T23:59:00Z"]


def test_the_scale_of_a_built_in_kind_shows_its_replicas() -> None:
    served = replace(kind("apps", "deployments"))
    tree = {"kind": "Scale", "metadata": {"name": "web", "creationTimestamp": "2025-12-31T23:59:00Z"}}
    assert table.cells(served, tree, NOW) == ["web", 0, 0, "60s"]
    assert table.cells(served, {**tree, "spec": {"replicas": 3}, "status": {"replicas": 2}}, NOW)[1:3] == [3, 2]
