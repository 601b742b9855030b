import asyncio
from typing import Any

import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.verbs import delete
from levelset.errors import Forbidden, Invalid
from levelset.storage import MemoryStorage
from tests.apiserver.support.kinds_harness import CRDS, KindsHarness, definition, load_data

V1, V2 = ("example.com", "v1", "widgets"), ("example.com", "v2", "widgets")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def condition(tree: dict[str, Any], kind: str) -> tuple[str, str]:
    found = next(one for one in tree["status"]["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


async def test_a_new_crd_gets_defaults_and_is_established() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition())
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert made["spec"]["names"] == made["status"]["acceptedNames"] == names
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert condition(made, "NamesAccepted") == ("True", "NoConflicts")
    assert condition(made, "Established") == ("True", "InitialNamesAccepted")


async def test_objects_can_be_created_as_soon_as_the_crd_is_stored() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    assert (await kinds.create(V1, {"spec": {}}))["kind"] == "Widget"


async def test_a_change_of_a_crd_is_effective_at_once() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition())
    made["spec"]["names"]["shortNames"] = ["w"]
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    changed = await kinds.update(CRDS, made)
    assert changed["metadata"]["generation"] == 2
    assert kinds.served(V2).short_names == ("w",)


async def test_an_unserved_version_is_not_in_the_catalog() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition(version={"served": False}))
    assert kinds.kinds.catalog.find(*V1) is None
    made["spec"]["versions"][0]["served"] = True
    await kinds.update(CRDS, made)
    assert kinds.kinds.catalog.find(*V1) is not None


async def test_a_change_that_does_not_affect_serving_leaves_the_catalog() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition())
    before = kinds.served(V1)
    made["metadata"]["labels"] = {"a": "b"}
    await kinds.update(CRDS, made)
    assert kinds.served(V1) is before


async def test_a_crd_with_taken_names_is_not_established() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    made = await kinds.define(definition("wodgets"))
    assert condition(made, "NamesAccepted") == ("False", "ListKindConflict")
    assert condition(made, "Established") == ("False", "NotAccepted")
    assert kinds.kinds.catalog.find("example.com", "v1", "wodgets") is None


async def test_stored_crds_are_served_after_a_restart() -> None:
    storage = MemoryStorage()
    first = await KindsHarness.make(storage)
    await first.define(definition())
    await first.define(definition("wodgets"))
    second = await KindsHarness.make(storage)
    assert second.served(V1).kind == "Widget"
    assert second.kinds.catalog.find("example.com", "v1", "wodgets") is None
    assert [one.name for one in second.kinds.definitions.all()] == ["widgets.example.com", "wodgets.example.com"]


async def test_deleting_a_crd_sets_a_finalizer_and_a_condition_and_rejects_new_objects() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    await kinds.create(V1, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    deleted = await delete.delete(kinds.state, kinds.served(CRDS), None, "widgets.example.com")
    assert deleted.tree["metadata"]["finalizers"] == [CLEANUP]
    assert condition(deleted.tree, "Terminating") == ("True", "InstanceDeletionPending")
    assert kinds.served(V1).terminating
    with pytest.raises(Forbidden):
        await kinds.create(V1, {}, name="b")


async def test_two_crds_stored_at_the_same_time_do_not_share_a_name() -> None:
    kinds = await KindsHarness.make()
    trees = [definition(), definition("wodgets")]
    await asyncio.gather(*(kinds.define(tree) for tree in trees))
    await kinds.cleanup.settle()
    held = [one for one in kinds.kinds.definitions.all() if one.served]
    assert len(held) == 1


async def test_a_crd_with_the_name_of_another_is_not_served() -> None:
    kinds = await KindsHarness.make()
    first = await kinds.define(definition())
    claimed = {**first["status"]["acceptedNames"], "plural": "wodgets"}
    second = definition("wodgets")
    second["spec"]["names"] |= {"singular": "widget", "listKind": "WidgetList"}
    second["status"] = {**first["status"], "acceptedNames": claimed}
    kinds.kinds.definitions.serve(second)
    assert kinds.kinds.catalog.find("example.com", "v1", "wodgets") is None
    assert kinds.kinds.definitions.desired_status(second)["acceptedNames"] == {"plural": "wodgets"}


async def test_the_crd_of_a_resource_is_found() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    found = kinds.kinds.definitions.of_kind(kinds.served(V1))
    assert found is kinds.kinds.definitions.find("widgets.example.com")
    assert found is not None
    assert found.storage is kinds.served(V1)
    assert kinds.kinds.definitions.of_kind(kinds.served(("", "v1", "configmaps"))) is None


async def test_a_rejected_crd_leaves_no_trace() -> None:
    kinds = await KindsHarness.make()
    before = kinds.kinds.catalog.generation
    with pytest.raises(Invalid):
        await kinds.define(definition(spec={"scope": "Odd"}))
    assert kinds.kinds.catalog.generation == before


async def test_a_log_handler_can_be_set_before_or_after_the_crd() -> None:
    kinds = await KindsHarness.make()

    def answer(*_: object) -> None:
        return None

    await kinds.define(definition())
    kinds.kinds.serve_logs("example.com", "Widget", answer)
    kinds.kinds.serve_logs("example.com", "Gadget", answer)
    kinds.kinds.serve_logs("", "Pod", answer)
    await kinds.define(definition("gadgets", "Gadget"))
    served: list[ServedResource] = [
        kinds.served(V1),
        kinds.served(("example.com", "v1", "gadgets")),
        kinds.served(("", "v1", "pods")),
    ]
    assert [one.logs for one in served] == [answer] * 3
