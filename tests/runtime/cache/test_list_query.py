"""List queries against a store: selection, order, limit and indexes."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from levelset.client.object_types import Item, view_of
from levelset.errors import BadSelector, ConfigError
from levelset.objects import Object, decode_cached, encode_tree
from levelset.runtime.cache.index import Index, by_label
from levelset.runtime.cache.list_query import head_filter, make_query, select_objects
from levelset.runtime.cache.object_store import Store, store
from levelset.runtime.cache.scope import Scope
from levelset.runtime.watch.events import Init, InitApply, InitDone
from levelset.testing.virtual_time import virtual

__all__: list[str] = []


class Config(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


VIEW = view_of(Config)
ALL = Scope(VIEW.gvk)
by_value: Index[Config] = Index(Config, lambda one: one.data.get("value"))
by_color: Index[Config] = Index(Config, lambda one: one.data.get("color"))


def filled(*objects: tuple[str, str, dict[str, str]], indexes: Iterable[Index[Any]] = ()) -> Store[Config]:
    """A store with these objects: namespace, name, labels (which are the data, too)."""
    made, writer = store(Config, *indexes)
    writer.apply([Init(), *[InitApply(item(*one)) for one in objects], InitDone("9")])
    return made


def item(namespace: str, name: str, labels: dict[str, str]) -> Item[Config]:
    metadata = {"name": name, "namespace": namespace, "labels": labels, "uid": name, "resourceVersion": "1"}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": labels}
    return Item(decode_cached(encode_tree(tree)), VIEW)


async def listed(made: Store[Config], held: Scope = ALL, **options: Any) -> list[str]:
    found = await select_objects(made, make_query(VIEW, **options), held)
    return [f"{one.head.namespace}/{one.head.name}" for one in found]


RED, BLUE = {"color": "red", "value": "1"}, {"color": "blue", "value": "1"}


@virtual
async def test_a_list_is_sorted_by_namespace_and_name() -> None:
    made = filled(("b", "y", {}), ("a", "z", {}), ("b", "x", {}), ("a-b", "x", {}))
    assert await listed(made) == ["a/z", "a-b/x", "b/x", "b/y"]


@virtual
async def test_a_list_is_narrowed_by_namespace_labels_and_name_together() -> None:
    made = filled(("a", "x", RED), ("a", "y", RED), ("b", "x", RED), ("a", "z", BLUE))
    assert await listed(made, namespace="a", labels="color=red") == ["a/x", "a/y"]
    assert await listed(made, labels={"color": "red"}, fields="metadata.name=x") == ["a/x", "b/x"]
    assert await listed(made, fields={"metadata.namespace": "b"}) == ["b/x"]
    assert await listed(made, fields="metadata.name!=x", namespace="a") == ["a/y", "a/z"]


@virtual
async def test_the_limit_applies_after_the_selectors() -> None:
    made = filled(("a", "w", BLUE), ("a", "x", RED), ("a", "y", RED), ("a", "z", RED))
    assert await listed(made, labels="color=red", limit=2) == ["a/x", "a/y"]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit=0"):
        make_query(VIEW, limit=0)


@virtual
async def test_a_list_by_one_and_by_several_indexes() -> None:
    made = filled(("a", "x", RED), ("b", "y", RED), ("a", "z", BLUE), indexes=[by_value, by_color])
    assert await listed(made, index=(by_color, "red")) == ["a/x", "b/y"]
    assert await listed(made, index=[(by_value, "1"), (by_color, "red")]) == ["a/x", "b/y"]
    assert await listed(made, index=[(by_value, "1"), (by_color, "red")], namespace="a") == ["a/x"]
    assert await listed(made, index=(by_color, "green")) == []


@virtual
async def test_labels_use_their_index_where_there_is_one() -> None:
    made = filled(("a", "x", RED), ("a", "y", BLUE), indexes=[by_label("color")])
    assert await listed(made, labels="color=red,value") == ["a/x"]
    assert await listed(made, labels="color in (red,blue)") == ["a/x", "a/y"]


@virtual
async def test_an_undeclared_index_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="indexes="):
        await listed(filled(), index=(by_color, "red"))


def test_a_field_that_only_the_server_can_evaluate_is_a_clear_error() -> None:
    query = make_query(VIEW, fields="data.color=red,metadata.name=x")
    with pytest.raises(BadSelector, match=r"cannot filter by data\.color: declare an Index") as caught:
        head_filter(query, ALL)
    assert caught.value.field == "data.color"


def test_requirements_of_the_informers_selector_are_not_evaluated_again() -> None:
    query = make_query(VIEW, fields="status.phase=Running", labels="a=b", namespace="x")
    assert head_filter(query, query.scope) is None


@virtual
async def test_a_long_list_lets_other_tasks_run_and_is_consistent() -> None:
    count = 5000
    made = filled(*[("a", f"n{number:05}", RED) for number in reversed(range(count))])
    ran = 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    found = await listed(made, labels="color=red")
    assert found == [f"a/n{number:05}" for number in range(count)]
    assert ran >= 8
    assert len(await listed(made, limit=3)) == 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
