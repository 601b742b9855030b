import pytest

from levelset.apiserver.server import Kinds
from tests.apiserver.kinds_world import KindsWorld, definition, load_data


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def test_the_kinds_of_two_servers_have_nothing_to_do_with_each_other() -> None:
    first, second = Kinds(), Kinds()
    assert first.catalog is not second.catalog
    assert first.definitions.rules is not second.definitions.rules


async def test_the_catalog_has_built_in_kinds_and_definitions() -> None:
    kinds = await KindsWorld.make()
    assert kinds.kinds.catalog.find("", "v1", "configmaps") is not None
    await kinds.define(definition())
    assert "example.com" in kinds.kinds.catalog.groups()
