"""Claims of owners by uid and labels: adoption and release, and the owners that may adopt an orphan."""

from datetime import datetime
from typing import Any

from levelset import LabelSelector, Ref
from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset.objects import OwnerReference
from levelset.testing import START
from levelset_local.ownership import SelectorRegistry, plan_claims
from systems.local.tests.samples import pod, replica_set

WEB = LabelSelector.of(app="web")


def owned(name: str, uid: str, *, controls: bool = True, **given: Any) -> Pod:
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid=uid, controller=controls)
    return pod(name, owner_references=(reference,), **given)


def claimed(*pods: Pod, deleted: datetime | None = None) -> dict[str, list[str]]:
    found = plan_claims(replica_set(deleted=deleted), WEB, pods)
    groups = {"owned": found.owned, "to_adopt": found.to_adopt, "to_release": found.to_release}
    return {word: [one.name for one in many] for word, many in groups.items() if many}


def test_a_controlled_and_selected_pod_stays_owned() -> None:
    assert claimed(owned("a", "uid-web-1")) == {"owned": ["a"]}


def test_a_controlled_pod_that_is_no_longer_selected_is_released() -> None:
    assert claimed(owned("a", "uid-web-1", labels={"app": "debug"})) == {"to_release": ["a"]}


def test_a_selected_orphan_is_adopted() -> None:
    assert claimed(pod("a")) == {"to_adopt": ["a"]}
    assert claimed(owned("a", "another", controls=False)) == {"to_adopt": ["a"]}


def test_a_pod_of_another_controller_is_not_claimed() -> None:
    assert claimed(owned("a", "another")) == {}


def test_unselected_and_terminating_orphans_are_not_adopted() -> None:
    assert claimed(pod("a", labels={"app": "other"}), pod("b", deleted=START)) == {}


def test_an_owner_that_is_being_deleted_neither_adopts_nor_releases() -> None:
    pods = (owned("a", "uid-web-1", labels={"app": "debug"}), pod("b"))
    assert claimed(*pods, deleted=START) == {"owned": ["a"]}


def test_the_owners_of_an_orphan_are_those_of_its_namespace_that_select_it() -> None:
    selectors = SelectorRegistry()
    mine, other = Ref(ReplicaSet, "a", "test"), Ref(ReplicaSet, "a", "elsewhere")
    selectors.register(mine, WEB)
    selectors.register(other, WEB)
    selectors.register(Ref(ReplicaSet, "b", "test"), LabelSelector.of(app="other"))
    assert list(selectors.owners_of(pod("orphan"))) == [mine]
    assert list(selectors.owners_of(owned("child", "another"))) == []
    selectors.unregister(mine)
    selectors.unregister(mine)
    assert list(selectors.owners_of(pod("orphan"))) == []
