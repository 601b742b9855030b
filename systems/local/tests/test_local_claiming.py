"""Who belongs to whom: by uid and labels, never taken from another, and orphans find their owners."""

from datetime import datetime
from typing import Any

from levelset import LabelSelector, OwnerReference, Ref
from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset.testing import START
from levelset_local.claiming import Selectors, sort_claims
from systems.local.tests.samples import pod, replica_set

WEB = LabelSelector.of(app="web")


def owned(name: str, uid: str, *, controls: bool = True, **given: Any) -> Pod:
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid=uid, controller=controls)
    return pod(name, owner_references=(reference,), **given)


def claimed(*pods: Pod, deleted: datetime | None = None) -> dict[str, list[str]]:
    found = sort_claims(replica_set(deleted=deleted), WEB, pods)
    groups = {"kept": found.kept, "adopted": found.adopted, "released": found.released}
    return {word: [one.name for one in many] for word, many in groups.items() if many}


def test_what_it_controls_and_selects_stays() -> None:
    assert claimed(owned("a", "uid-web-1")) == {"kept": ["a"]}


def test_what_it_controls_and_no_longer_selects_is_let_go() -> None:
    assert claimed(owned("a", "uid-web-1", labels={"app": "debug"})) == {"released": ["a"]}


def test_an_orphan_that_it_selects_is_adopted() -> None:
    assert claimed(pod("a")) == {"adopted": ["a"]}
    assert claimed(owned("a", "somebody", controls=False)) == {"adopted": ["a"]}


def test_nothing_is_taken_from_another_controller() -> None:
    assert claimed(owned("a", "another")) == {}


def test_orphans_that_it_does_not_select_or_that_are_going_are_left_alone() -> None:
    assert claimed(pod("a", labels={"app": "other"}), pod("b", deleted=START)) == {}


def test_an_owner_that_is_going_neither_adopts_nor_lets_go() -> None:
    pods = (owned("a", "uid-web-1", labels={"app": "debug"}), pod("b"))
    assert claimed(*pods, deleted=START) == {"kept": ["a"]}


def test_an_orphan_concerns_those_of_its_namespace_that_select_it() -> None:
    selectors = Selectors()
    mine, other = Ref(ReplicaSet, "a", "test"), Ref(ReplicaSet, "a", "elsewhere")
    selectors.note(mine, WEB)
    selectors.note(other, WEB)
    selectors.note(Ref(ReplicaSet, "b", "test"), LabelSelector.of(app="other"))
    assert list(selectors.of(pod("orphan"))) == [mine]
    assert list(selectors.of(owned("child", "somebody"))) == []
    selectors.forget(mine)
    selectors.forget(mine)
    assert list(selectors.of(pod("orphan"))) == []
