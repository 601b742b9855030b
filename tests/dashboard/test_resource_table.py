"""Tables of kinds with the server's columns: paged, filtered, sorted; and the search over all kinds."""

import asyncio
from typing import Any

import pytest

from levelset.client import Client
from levelset.dashboard import resource_table
from levelset.dashboard.resource_table import SearchWords, TableQuery, TableReader, read_search, search, tone_of
from levelset.errors import BadRequest
from levelset.objects import Ref
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP, WEBSITE, website, website_crd
from tests.dashboard.fixtures import get, open_client, open_dashboard, tree


async def fill(client: Client, count: int = 5) -> None:
    for number in range(count):
        labels = {"app": "web" if number % 2 else "db"}
        data = {f"k{at}": "" for at in range(number)}
        await client.create(tree("v1", "ConfigMap", f"map-{number}", metadata={"labels": labels}, data=data))


async def rows_of(client: Client, **query: Any) -> list[str]:
    found = await TableReader(client).read(TableQuery(gvk=CONFIG_MAP, **query))
    return [one["name"] for one in found["rows"]]


@virtual
async def test_the_columns_are_those_of_the_definition() -> None:
    async with open_client() as client:
        column = {"name": "Image", "type": "string", "jsonPath": ".spec.image", "description": "what runs"}
        wide = {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1}
        crd = website_crd()
        definition = crd if isinstance(crd, dict) else crd.tree
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = [column, wide]
        await client.apply(definition, force=True)
        await client.create(website("blog"))
        found = await TableReader(client).read(TableQuery(gvk=WEBSITE))
    assert [(one["name"], one["isWide"], one["isNumber"]) for one in found["columns"]] == [
        ("Name", False, False),
        ("Image", False, False),
        ("Replicas", True, True),
    ]
    (row,) = found["rows"]
    assert (row["name"], row["namespace"], row["cells"][0]) == ("blog", "default", "blog")
    assert row["created"]


@virtual
async def test_without_an_order_the_server_cuts_the_pages() -> None:
    async with open_client() as client:
        await fill(client)
        reader = TableReader(client)
        one = await reader.read(TableQuery(gvk=CONFIG_MAP, limit=3))
        two = await reader.read(TableQuery(gvk=CONFIG_MAP, limit=3, continue_=one["continue"]))
        none = await reader.read(TableQuery(gvk=CONFIG_MAP, namespace="kube-system"))
    assert [row["name"] for row in one["rows"] + two["rows"]] == [f"map-{number}" for number in range(5)]
    assert (one["total"], two["total"], two["continue"], none["rows"]) == (5, 2, None, [])


@virtual
async def test_rows_are_filtered_by_labels_and_texts_and_sorted_by_a_column() -> None:
    async with open_client() as client:
        await fill(client)
        assert await rows_of(client, labels="app=web") == ["map-1", "map-3"]
        assert await rows_of(client, text="MAP-3") == ["map-3"]
        assert await rows_of(client, text="app=db map-2") == ["map-2"]
        assert await rows_of(client, sort="Data", is_descending=True) == [f"map-{one}" for one in (4, 3, 2, 1, 0)]
        assert await rows_of(client, sort="Name", offset=3) == ["map-3", "map-4"]
        with pytest.raises(BadRequest, match="labels: "):
            await rows_of(client, labels="a=b=c")


@virtual
async def test_a_long_list_is_searched_and_sorted_whole_by_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_table, "MOST_ROWS", 4)
    monkeypatch.setattr(resource_table, "_CHUNK", 2)
    monkeypatch.setattr(resource_table, "_METADATA_CHUNK", 2)
    async with open_client() as client:
        await fill(client)
        reader = TableReader(client)
        by_text = await reader.read(TableQuery(gvk=CONFIG_MAP, text="MAP app=db"))
        by_name = await reader.read(TableQuery(gvk=CONFIG_MAP, sort="Name", is_descending=True, limit=2))
        selected = await reader.read(TableQuery(gvk=CONFIG_MAP, sort="Age", labels="app", limit=1))
    assert [(row["name"], row["cells"]) for row in by_text["rows"]] == [
        (f"map-{number}", [f"map-{number}", str(number)]) for number in (0, 2, 4)
    ]
    assert (by_text["isPartial"], by_text["isByMetadata"]) == (False, True)
    assert [row["name"] for row in by_name["rows"]] == ["map-4", "map-3"]
    assert (by_name["total"], by_name["isByMetadata"]) == (5, False)
    assert (selected["total"], selected["rows"][0]["name"]) == (5, "map-0")


@virtual
async def test_a_long_list_is_sorted_in_part_by_a_column_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_table, "MOST_ROWS", 4)
    monkeypatch.setattr(resource_table, "_CHUNK", 2)
    async with open_client() as client:
        await fill(client)
        found = await TableReader(client).read(TableQuery(gvk=CONFIG_MAP, sort="Data", is_descending=True))
    assert (found["total"], found["isPartial"]) == (4, True)
    assert found["rows"][0]["name"] == "map-3"


@virtual
async def test_an_object_that_was_deleted_after_it_was_listed_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_table, "_MANY", 4)
    async with open_client() as client:
        await fill(client)
        reader = TableReader(client)
        await reader.read(TableQuery(gvk=CONFIG_MAP, sort="Name"))
        await client.delete(Ref(CONFIG_MAP, "map-1", namespace="default"))
        found = await reader.read(TableQuery(gvk=CONFIG_MAP, sort="Name"))
    assert [row["name"] for row in found["rows"]] == ["map-0", "map-2", "map-3", "map-4"]


@virtual
async def test_the_rows_of_a_long_list_are_reused_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_table, "_MANY", 4)
    async with open_client() as client:
        await fill(client)
        reader = TableReader(client)

        async def names(text: str, **more: Any) -> list[str]:
            found = await reader.read(TableQuery(gvk=CONFIG_MAP, text=text, **more))
            return [one["name"] for one in found["rows"]]

        assert len(await names("map")) == 5
        await client.create(tree("v1", "ConfigMap", "map-new"))
        assert await names("new") == []
        assert await names("new", namespace="default") == ["map-new"]  # other rows
        await asyncio.sleep(11)
        assert await names("new") == ["map-new"]


@virtual
async def test_values_of_secrets_are_not_in_their_table() -> None:
    async with open_client() as client:
        await client.create(tree("v1", "Secret", "key", stringData={"password": "hunter2"}))
        secrets = type(CONFIG_MAP)("", "v1", "Secret")
        found = await TableReader(client).read(TableQuery(gvk=secrets, text="key"))
    assert len(found["rows"]) == 1
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    ("column", "cell", "tone"),
    [
        ("Status", "Running", "good"),
        ("Status", "CrashLoopBackOff", "bad"),
        ("Status", "ErrImageNeverPull", "bad"),
        ("Status", "CreateContainerConfigError", "bad"),
        ("Status", "Init:ImagePullBackOff", "bad"),
        ("Ready", "2/3", "busy"),
        ("Ready", "3/3", "good"),
        ("Phase", "Terminating", "busy"),
        ("Image", "Running", "none"),
        ("Status", "half way", "none"),
    ],
)
def test_states_have_a_tone(column: str, cell: str, tone: str) -> None:
    assert tone_of(column, cell) == tone


def test_a_search_has_words_and_labels() -> None:
    assert read_search("  Web app=shop !old x ") == SearchWords("app=shop,!old", ("web", "x"))
    assert read_search("") == SearchWords()


@virtual
async def test_objects_of_all_kinds_are_found_by_name_and_label() -> None:
    async with open_dashboard() as (page, client):
        await fill(client)
        await client.create(website("map-of-sites"))
        by_name = await get(page, "/api/search?q=map-of")
        by_kind = await get(page, "/api/search?q=website")
        by_label = await get(page, "/api/search?q=app%3Dweb")
        nothing = await get(page, "/api/search?q=")
        served = [await client.resource(one) for one in (CONFIG_MAP, WEBSITE)]
        both = await search(client, served, read_search("map-"))
    assert [(one["kind"], one["name"]) for one in by_name["objects"]] == [("example.dev/v1/Website", "map-of-sites")]
    assert "map-of-sites" in [one["name"] for one in by_kind["objects"]]
    assert [one["name"] for one in by_label["objects"]] == ["map-1", "map-3"]
    assert nothing == {"objects": [], "isPartial": False}
    assert len(both["objects"]) == 6
