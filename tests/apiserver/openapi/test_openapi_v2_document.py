import json
from functools import partial
from typing import Any

from levelset.apiserver.openapi.openapi_v2 import Form, MergedDocument
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.wire.protobuf import read_fields


class Source:
    """Makes OpenAPI v3 documents, and records of which groups."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def make(self, group: str) -> Any:
        self.read.append(group)
        schemas = {"Meta": {"type": "object"}, f"{group}Kind": {"type": "object"}}
        return {"paths": {f"/{group}": {}}, "components": {"schemas": schemas}}


def empty() -> MergedDocument:
    return MergedDocument(ExpensiveWork())


async def body(whole: MergedDocument, source: Source, form: Form = "json", **hashes: str) -> bytes:
    sources = {digest: partial(source.make, name.replace("core", "")) for name, digest in hashes.items()}
    return (await whole.read(form, sources)).body


async def test_definitions_shared_by_several_groups_occur_once() -> None:
    tree = json.loads(await body(empty(), Source(), apps="1", core="2"))
    assert tree["swagger"] == "2.0"
    assert set(tree["paths"]) == {"/apps", "/"}
    assert list(tree["definitions"]) == ["Meta", "appsKind", "Kind"]


async def test_json_and_protobuf_have_the_same_content() -> None:
    data = await body(empty(), Source(), "protobuf", apps="1", core="2")
    (definitions,) = [value for number, _, value in read_fields(data) if number == 9]
    assert isinstance(definitions, bytes)
    named = [{number: value for number, _, value in read_fields(one)} for _, _, one in _messages(definitions)]
    assert [one[1] for one in named] == [b"Meta", b"appsKind", b"Kind"]


def _messages(data: bytes) -> list[tuple[int, int, bytes]]:
    return [(number, wire, value) for number, wire, value in read_fields(data) if isinstance(value, bytes)]


async def test_only_changed_groups_are_regenerated() -> None:
    source, whole = Source(), empty()
    first = await body(whole, source, apps="new 1", core="new 2")
    assert await body(whole, source, apps="new 1", core="new 2") is first
    assert source.read == ["apps", ""]
    await body(whole, source, apps="new 1", core="new 3")
    assert source.read == ["apps", "", ""]
    await body(empty(), source, apps="new 1", core="new 3")
    assert source.read == ["apps", "", ""]
