import json
from typing import Any

from levelset.apiserver.openapi.openapi_v2 import Form, MergedDocument
from levelset.apiserver.wire.protobuf import read_fields

APPS, CORE = ("apps", "v1"), ("", "v1")


class Source:
    """OpenAPI v3 documents that record each read."""

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    def __call__(self, pair: tuple[str, str]) -> Any:
        self.read.append(pair)
        schemas = {"Meta": {"type": "object"}, f"{pair[0]}Kind": {"type": "object"}}
        return {"paths": {f"/{pair[0]}": {}}, "components": {"schemas": schemas}}


async def body(whole: MergedDocument, form: Form = "json", **hashes: str) -> bytes:
    named = {(name.replace("core", ""), "v1"): digest for name, digest in hashes.items()}
    return (whole.find(form, named) or await whole.make(form, named)).body


async def test_definitions_shared_by_several_groups_occur_once() -> None:
    tree = json.loads(await body(MergedDocument(Source()), apps="1", core="2"))
    assert tree["swagger"] == "2.0"
    assert set(tree["paths"]) == {"/apps", "/"}
    assert list(tree["definitions"]) == ["Meta", "appsKind", "Kind"]


async def test_json_and_protobuf_have_the_same_content() -> None:
    data = await body(MergedDocument(Source()), "protobuf", apps="1", core="2")
    (definitions,) = [value for number, _, value in read_fields(data) if number == 9]
    assert isinstance(definitions, bytes)
    named = [{number: value for number, _, value in read_fields(one)} for _, _, one in _messages(definitions)]
    assert [one[1] for one in named] == [b"Meta", b"appsKind", b"Kind"]


def _messages(data: bytes) -> list[tuple[int, int, bytes]]:
    return [(number, wire, value) for number, wire, value in read_fields(data) if isinstance(value, bytes)]


async def test_only_changed_groups_are_regenerated() -> None:
    source = Source()
    whole = MergedDocument(source)
    await body(whole, apps="new 1", core="new 2")
    assert whole.find("json", {APPS: "new 1", CORE: "new 2"}) is not None
    assert whole.find("json", {APPS: "new 1", CORE: "new 3"}) is None
    await body(whole, apps="new 1", core="new 3")
    assert source.read == [APPS, CORE, CORE]
    await body(MergedDocument(source), apps="new 1", core="new 3")
    assert source.read == [APPS, CORE, CORE]
