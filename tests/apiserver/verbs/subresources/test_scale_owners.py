from typing import Any

from levelset.apiserver.verbs.subresources.scale import owners_of_object, owners_of_scale

PATH = ".spec.replicas"
NOW = "2026-01-31T12:00:00Z"


def entry(manager: str, operation: str, fields: Any, version: str = "apps/v1", **more: Any) -> Any:
    names = {"manager": manager, "operation": operation, "apiVersion": version}
    return {**names, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
BOTH: dict[str, Any] = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
SCALE = "autoscaling/v1"


def test_the_owners_of_a_scale_are_those_of_the_replicas_in_its_version() -> None:
    managed: Any = [entry("a", "Update", BOTH, time=NOW), entry("b", "Apply", {"f:spec": {"f:paused": {}}})]
    assert owners_of_scale(managed, PATH) == [entry("a", "Update", REPLICAS, SCALE, time=NOW)]


def test_a_new_owner_of_the_replicas_takes_them_from_the_others_and_has_no_time() -> None:
    managed: Any = [entry("a", "Update", BOTH, time=NOW), entry("b", "Apply", REPLICAS, time=NOW)]
    scaled: Any = [entry("c", "Update", REPLICAS, SCALE, time=NOW, subresource="scale")]
    assert owners_of_object(managed, scaled, PATH, "apps/v1") == [
        entry("c", "Update", REPLICAS, subresource="scale"),
        entry("a", "Update", {"f:spec": {"f:paused": {}}}, time=NOW),
    ]


def test_an_applier_that_keeps_the_replicas_keeps_its_entry() -> None:
    managed: Any = [entry("a", "Apply", BOTH, time=NOW)]
    assert owners_of_object(managed, owners_of_scale(managed, PATH), PATH, "apps/v1") == managed


def test_an_updater_that_keeps_the_replicas_has_a_second_entry_for_them() -> None:
    managed: Any = [entry("a", "Update", BOTH, time=NOW)]
    assert owners_of_object(managed, owners_of_scale(managed, PATH), PATH, "apps/v1") == [
        entry("a", "Update", REPLICAS),
        entry("a", "Update", {"f:spec": {"f:paused": {}}}, time=NOW),
    ]


def test_replicas_without_an_owner_have_none_afterwards() -> None:
    managed: Any = [entry("a", "Update", REPLICAS, time=NOW)]
    assert owners_of_object(managed, [], PATH, "apps/v1") == []
