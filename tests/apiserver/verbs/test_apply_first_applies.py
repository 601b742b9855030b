"""An apply that creates must not tell by its way: each body is applied at once and, beside it, by the general way."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from levelset.apiserver.eager_coroutines import run_at_once
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import apply
from levelset.apiserver.verbs.apply import create_applied
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApiError
from levelset.storage import MemoryStorage
from tests.apiserver.writes import SPACE, SlowStorage, configmaps, make_served, make_world, preload_kinds, widget
from tests.patch.trees_strategy import maps

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": True}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.fixture(scope="module", autouse=True)
def _kinds() -> None:
    preload_kinds()


async def outcome(world: World, served: ServedResource, body: bytes, options: dict[str, Any]) -> Any:
    """All that can be seen of an apply: what is answered, stored and warned of, or how it is refused."""
    named = WriteOptions("m", named=True, **options)
    try:
        written = await apply.apply(world, served, "x", "a", body, options=named)
    except ApiError as error:
        return type(error), error.code, str(error), error.causes, named.warnings
    stored = await world.storage.get(served.key("x", "a"))
    order = json.dumps(written.tree)
    return order, written.created, None if stored is None else stored.value, named.warnings


async def both_ways(body: bytes, *, builtin: bool = False, kind: ServedResource | None = None, **options: Any) -> Any:
    """The outcome, and whether it came at once; it is the same as where a storage must be waited for."""
    quick, served = make_world(kind)
    slow, _ = make_world(served, storage=SlowStorage())
    served = configmaps(quick) if builtin else served
    made = await outcome(quick, served, body, options)
    assert made == await outcome(slow, served, body, options)
    again, _ = make_world(served)
    try:
        at_once = create_applied(again, served, "x", "a", body, options=WriteOptions("m", named=True, **options))
    except ApiError:
        return made, True
    return made, at_once is not None


PLAIN: list[Any] = [
    widget(),
    widget(spec={"color": "red"}),
    widget(spec={"items": [{"name": "b", "v": "1"}, {"name": "a"}], "free": {"z": {}, "y": [], "x": {"w": 1}}}),
    widget(namespace="x", labels={"b": "1", "a": ""}, annotations={"k": "v"}, finalizers=["b/c", "a/b", "plain"]),
    widget(ownerReferences=[OWNER]),
    widget(ownerReferences=[{**OWNER, "uid": "2", "controller": None}, OWNER]),
    widget(labels=None, annotations={}, creationTimestamp="2020-01-01T00:00:00Z", generation=7, selfLink="/a"),
    widget(generateName="b"),
    widget(unknown="dropped"),
]


@pytest.mark.parametrize("config", PLAIN, ids=range(len(PLAIN)))
async def test_a_plain_object_is_created_at_once_and_as_ever(config: Any) -> None:
    (_, created, *_), at_once = await both_ways(json.dumps(config).encode())
    assert (created, at_once) == (True, True)


async def test_a_builtin_object_is_created_at_once_and_as_ever() -> None:
    config = {**CONFIG_MAP, "data": {"b": "1", "a": ""}, "binaryData": {}}
    (_, created, *_), at_once = await both_ways(json.dumps(config).encode(), builtin=True)
    assert (created, at_once) == (True, True)


async def test_a_kind_without_schema_is_created_at_once_and_as_ever() -> None:
    kind = ServedResource(
        "g", "v1", "Any", "anies", "any", "AnyList", True, "v1", custom=True, rules=Rules(generation=False)
    )
    config = {"apiVersion": "g/v1", "kind": "Any", "metadata": {"name": "a", "labels": {"l": "1"}}, "b": {"c": None}}
    (_, created, *_), at_once = await both_ways(json.dumps(config).encode(), kind=kind)
    assert (created, at_once) == (True, True)


REFUSED: list[Any] = [
    widget(labels={"a": "not valid!"}),
    widget(labels=["no map"]),
    widget("b"),
    widget(namespace="other"),
    widget(uid="1"),
    widget(resourceVersion="1"),
    widget(managedFields=[{}]),
    widget(ownerReferences=[{**OWNER, "kind": "Event", "uid": ""}]),
    widget(ownerReferences=[OWNER, {**OWNER, "uid": "2"}]),
    widget(ownerReferences=[OWNER, OWNER]),
    widget(spec={"replicas": 11}),
    widget(spec={"unknown": 1}),
    widget(spec={"color": None}),
    widget(spec={"items": [{"name": "a"}, {"name": "a"}]}),
    widget(spec={"items": [{"v": "a"}]}),
    {**widget(), "kind": "Other"},
    {"apiVersion": "example.com/v1", "kind": "Widget"},
    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": None},
    {**widget(), "metadata": 1},
]


@pytest.mark.parametrize("config", REFUSED, ids=range(len(REFUSED)))
async def test_what_is_wrong_is_refused_as_ever(config: Any) -> None:
    made, _ = await both_ways(json.dumps(config).encode())
    assert issubclass(made[0], ApiError)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a":1}', b"apiVersion: example.com/v1", b"\xff", b"{a: b}"])
async def test_what_is_no_object_of_this_kind_is_refused_as_ever(body: bytes) -> None:
    made, _ = await both_ways(body)
    assert issubclass(made[0], ApiError)


@pytest.mark.parametrize(
    "options",
    [{"dry_run": True}, {"subresource": "status"}, {"subresource": "scale"}, {"duplicates": ("a",)}],
    ids=["dry run", "status", "scale", "duplicates"],
)
async def test_other_wishes_are_left_to_the_general_way(options: dict[str, Any]) -> None:
    _, at_once = await both_ways(json.dumps(widget()).encode(), **options)
    assert not at_once


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({**widget(), "status": {"ok": True}}).encode(),
        b" " + json.dumps(widget()).encode(),
        b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
    ],
    ids=["status", "space", "yaml"],
)
async def test_other_bodies_are_left_to_the_general_way(body: bytes) -> None:
    (_, created, *_), at_once = await both_ways(body)
    assert (created, at_once) == (True, False)


def test_kubectl_an_object_that_is_there_and_a_storage_that_waits_are_left_to_the_general_way() -> None:
    world, served = make_world()
    body, options = json.dumps(widget()).encode(), WriteOptions("m", named=True)
    assert create_applied(world, served, "x", "a", body, options=WriteOptions("kubectl", named=True)) is None
    assert create_applied(world, make_served(awaits=True), "x", "a", body, options=options) is None
    assert create_applied(make_world(served, storage=SlowStorage())[0], served, "x", "a", body, options=options) is None
    assert create_applied(world, served, "x", "a", body, options=options) is not None
    assert create_applied(world, served, "x", "a", body, options=options) is None


@pytest.mark.parametrize("space", [None, SPACE.replace(b'"x"', b'"x","deletionTimestamp":"2026-01-01T00:00:00Z"')])
async def test_a_namespace_that_is_not_there_or_goes_takes_nothing(space: bytes | None) -> None:
    refusals: list[Any] = []
    for storage in (MemoryStorage(), SlowStorage()):
        world, served = make_world(storage=storage)
        item = await storage.get("/registry/core/namespaces/x")
        assert item is not None
        if space is None:
            await storage.delete(item.key, expected=None)
        else:
            await storage.put(item.key, space, expected=None)
        refusals.append(await outcome(world, served, json.dumps(widget()).encode(), {}))
    assert refusals[0] == refusals[1]
    assert issubclass(refusals[0][0], ApiError)


async def test_an_object_that_a_judge_makes_meanwhile_is_changed_instead() -> None:
    world, served = make_world()
    other = json.dumps(widget(spec={"color": "blue"})).encode()

    def judge(tree: Any, old: Any) -> list[Any]:
        if world.validators.pop(("example.com", "Widget"), None):
            options = WriteOptions("judge", named=True)
            run_at_once(apply.apply(world, served, "x", "a", other, options=options))
        return []

    world.validators["example.com", "Widget"] = [judge]
    body = json.dumps(widget(spec={"replicas": 2})).encode()
    written = await apply.apply(world, served, "x", "a", body, options=WriteOptions("m", named=True))
    assert (written.created, written.tree["spec"]) == (False, {"color": "blue", "replicas": 2})


@settings(max_examples=60, deadline=None)
@given(maps(), maps(), some.booleans())
async def test_whatever_is_applied_comes_out_as_ever(spec: Any, metadata: Any, known: bool) -> None:
    named = {"labels": metadata} if known else metadata
    await both_ways(json.dumps(widget(spec={"color": "red", "free": spec}, **named)).encode())
    await both_ways(json.dumps({**CONFIG_MAP, "data": spec}).encode(), builtin=True)
