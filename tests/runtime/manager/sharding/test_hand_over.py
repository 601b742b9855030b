"""Which objects a member reconciles: decided once for each object while the members stay the same."""

import pytest

from levelset.runtime.manager.sharding.hand_over import ShardedController
from levelset.runtime.manager.sharding.rendezvous import View

KEYS = [f"default/site-{number}" for number in range(200)]


class CountedView(View):
    """A view that counts its decisions."""

    __slots__ = ("decisions",)

    def __init__(self, *members: str) -> None:
        super().__init__("a", {one: f"host-{one}" for one in members})
        self.decisions = 0

    def owns(self, key: str) -> bool:
        self.decisions += 1
        return super().owns(key)


class Members:
    """The members as one of them knows them now."""

    def __init__(self, view: CountedView) -> None:
        self.view = view
        self.controller = ShardedController("sites", lambda: self.view, lambda: True)

    def owned(self) -> list[str]:
        return [key for key in KEYS if self.controller.admits(key)]


async def test_an_object_is_scored_once_while_the_members_are_the_same() -> None:
    members = Members(CountedView("a", "b", "c"))
    first = members.owned()
    assert members.owned() == first == [key for key in KEYS if members.view.owns(f"sites/{key}")]
    assert members.view.decisions == 2 * len(KEYS), "once by the controller, and once by this test"


@pytest.mark.parametrize("change", [("a", "b"), ("a", "b", "c", "d"), ("a", "d"), ("a",)])
async def test_objects_are_decided_again_when_the_members_change(change: tuple[str, ...]) -> None:
    members = Members(CountedView("a", "b", "c"))
    before = members.owned()
    members.view = CountedView(*change)
    after = members.owned()
    assert after == [key for key in KEYS if members.view.owns(f"sites/{key}")] != before
    members.view = CountedView("a", "b", "c")
    assert members.owned() == before


async def test_decisions_about_objects_that_are_gone_do_not_add_up() -> None:
    members = Members(CountedView("a", "b"))
    for number in range(20_000):
        members.controller.admits(f"default/job-{number}")
    assert len(members.controller._decisions) <= 1024
    assert members.owned() == [key for key in KEYS if members.view.owns(f"sites/{key}")]
