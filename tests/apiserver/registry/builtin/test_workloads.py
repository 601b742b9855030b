from typing import Any

import pytest

from tests.apiserver.support.kinds_harness import KindsHarness, load_data

DEPLOYMENTS, JOBS = ("apps", "v1", "deployments"), ("batch", "v1", "jobs")
POD = {"containers": [{"name": "a", "image": "a:1"}]}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def workload(**more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    return {"spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template, **more}}


async def test_a_deployment_gets_defaults() -> None:
    kinds = await KindsHarness.make()
    spec = (await kinds.create(DEPLOYMENTS, workload()))["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


async def test_a_recreate_strategy_has_no_rolling_update() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(DEPLOYMENTS, workload(strategy={"type": "Recreate"}))
    assert made["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("plural", ["statefulsets", "daemonsets", "replicasets"])
async def test_the_other_workloads_get_defaults(plural: str) -> None:
    kinds = await KindsHarness.make()
    spec = (await kinds.create(("apps", "v1", plural), workload()))["spec"]
    expected: dict[str, dict[str, Any]] = {
        "statefulsets": {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10},
        "daemonsets": {"revisionHistoryLimit": 10},
        "replicasets": {"replicas": 1},
    }
    assert {name: spec.get(name) for name in expected[plural]} == expected[plural]


async def test_a_selector_matches_the_template_and_is_immutable() -> None:
    kinds = await KindsHarness.make()
    other = workload(selector={"matchLabels": {"app": "other"}})
    assert await kinds.refused(DEPLOYMENTS, other) == {"spec.template.metadata.labels": "FieldValueInvalid"}
    made = await kinds.create(DEPLOYMENTS, workload())
    changed = {
        **made,
        "spec": {**made["spec"], "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    }
    assert await kinds.refused_update(DEPLOYMENTS, changed) == {"spec.selector": "FieldValueInvalid"}


async def test_replicas_are_not_negative_and_pods_restart() -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(DEPLOYMENTS, workload(replicas=-1)) == {"spec.replicas": "FieldValueInvalid"}
    never = workload()
    never["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert await kinds.refused(DEPLOYMENTS, never) == {"spec.template.spec.restartPolicy": "FieldValueNotSupported"}


async def test_a_job_selects_its_own_pods() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(JOBS, {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}})
    spec, uid = made["spec"], made["metadata"]["uid"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "a"
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"], spec["suspend"]) == (1, 1, 6, False)


@pytest.mark.parametrize(("labels", "is_checked"), [(None, False), ({}, True), ({"a": "b"}, True)])
@pytest.mark.parametrize("name", ["-a", "a" * 64])
async def test_labels_of_a_job_are_checked_if_its_template_has_some(
    name: str, labels: dict[str, str] | None, is_checked: bool
) -> None:
    kinds = await KindsHarness.make()
    template = {"metadata": {} if labels is None else {"labels": labels}, "spec": {**POD, "restartPolicy": "Never"}}
    refused = await kinds.refused(JOBS, {"metadata": {"name": name}, "spec": {"template": template}})
    assert ("metadata.labels" in refused, "spec.template.labels" in refused) == (is_checked, True)


async def test_fields_that_the_server_adds_to_a_job_have_no_manager() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(JOBS, {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}})
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:completions" in owned
    assert "f:selector" not in owned
    assert "f:metadata" not in owned["f:template"]


async def test_a_job_cannot_always_restart_and_its_template_is_immutable() -> None:
    kinds = await KindsHarness.make()
    refused = await kinds.refused(JOBS, {"spec": {"template": {"spec": POD}}})
    assert refused == {"spec.template.spec.restartPolicy": "FieldValueRequired"}
    made = await kinds.create(JOBS, {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}})
    made["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert await kinds.refused_update(JOBS, made) == {"spec.template": "FieldValueInvalid"}


async def test_a_cron_job_gets_defaults() -> None:
    kinds = await KindsHarness.make()
    job = {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}}
    made = await kinds.create(("batch", "v1", "cronjobs"), {"spec": {"schedule": "* * * * *", "jobTemplate": job}})
    spec = made["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)


async def test_the_selector_of_a_replication_controller_defaults_to_the_template_labels() -> None:
    kinds = await KindsHarness.make()
    tree = workload()
    del tree["spec"]["selector"]
    made = await kinds.create(("", "v1", "replicationcontrollers"), tree)
    assert made["spec"]["selector"] == {"app": "w"}


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3"), ("0", "1"), ("-2", "1"), ("x", "1")])
async def test_a_daemon_set_keeps_the_generation_of_its_template(given: str | None, expected: str) -> None:
    kinds = await KindsHarness.make()
    name = "deprecated.daemonset.template.generation"
    metadata = {"name": "w", "annotations": {} if given is None else {name: given}}
    made = await kinds.create(("apps", "v1", "daemonsets"), {**workload(), "metadata": metadata})
    assert made["metadata"]["annotations"] == {name: expected}


async def test_the_data_of_a_controller_revision_never_changes_not_even_from_empty_to_absent() -> None:
    kinds = await KindsHarness.make()
    revisions = ("apps", "v1", "controllerrevisions")
    made = await kinds.create(revisions, {"revision": 1, "data": {"a": {"b": []}}})
    assert await kinds.refused_update(revisions, {**made, "data": {}}) == {"data": "FieldValueInvalid"}
    assert (await kinds.update(revisions, {**made, "revision": 2}))["revision"] == 2
