"""Kinds that a source computes for each request: they are discovered and read like others, and cannot be written."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import Column, Object, ObjectMeta
from levelset.apiserver import ComputedSource
from levelset.codegen import crd_of
from levelset.errors import ConfigError, TooManyRequests
from tests.apiserver.support.in_process_server import InProcessServer, open_server

PATH = "/apis/weather.example.dev/v1beta1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Reading(
    Object,
    api="weather.example.dev/v1beta1",
    plural="stations",
    columns=[Column("Degrees", ".degrees", type="integer")],
):
    """What a station measures."""

    degrees: int = 0


def reading(name: str, namespace: str, degrees: int) -> Reading:
    return Reading(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name}), degrees=degrees)


DEFINITION = crd_of(Reading)
READINGS = (reading("north", "a", -3), reading("south", "a", 30), reading("south", "b", 31))


async def measure(namespace: str | None) -> Iterable[Object]:
    return [one for one in READINGS if namespace in (None, one.namespace)]


@asynccontextmanager
async def serving(source: ComputedSource = measure) -> AsyncGenerator[InProcessServer, None]:
    async with open_server() as api:
        api.server.serve_computed(DEFINITION, source)
        yield api


def degrees(body: dict[str, Any]) -> list[int]:
    return [one["degrees"] for one in body["items"]]


async def test_a_computed_kind_is_listed_by_namespace_and_by_labels() -> None:
    async with serving() as api:
        _, found = await api.request("GET", f"{PATH}/stations")
        assert (found["kind"], found["apiVersion"]) == ("ReadingList", "weather.example.dev/v1beta1")
        assert degrees(found) == [-3, 30, 31]
        assert degrees((await api.request("GET", f"{PATH}/namespaces/b/stations"))[1]) == [31]
        assert degrees((await api.request("GET", f"{PATH}/stations", labelSelector="app=south"))[1]) == [30, 31]
        chosen = await api.request("GET", f"{PATH}/stations", fieldSelector="metadata.name=north")
        assert degrees(chosen[1]) == [-3]


async def test_one_object_of_a_computed_kind_is_read_and_a_missing_one_is_not_found() -> None:
    async with serving() as api:
        _, one = await api.request("GET", f"{PATH}/namespaces/b/stations/south")
        assert (one["kind"], one["metadata"]["namespace"], one["degrees"]) == ("Reading", "b", 31)
        status, gone = await api.request("GET", f"{PATH}/namespaces/b/stations/north")
        assert (status, gone["reason"]) == (404, "NotFound")


async def test_a_computed_kind_has_a_table_with_its_columns() -> None:
    async with serving() as api:
        _, table = await api.request("GET", f"{PATH}/namespaces/a/stations", accept=TABLE)
        assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Degrees"]
        assert [row["cells"] for row in table["rows"]] == [["north", -3], ["south", 30]]


async def test_a_computed_kind_is_in_discovery_and_in_openapi_with_the_verbs_that_it_has() -> None:
    async with serving() as api:
        _, groups = await api.request("GET", "/apis")
        assert "weather.example.dev" in [one["name"] for one in groups["groups"]]
        _, found = await api.request("GET", PATH)
        assert [(one["name"], one["kind"], one["verbs"]) for one in found["resources"]] == [
            ("stations", "Reading", ["get", "list"])
        ]
        _, document = await api.request("GET", "/openapi/v3/apis/weather.example.dev/v1beta1")
        collection = document["paths"][f"{PATH}/namespaces/{{namespace}}/stations"]
        assert {"get", "post", "delete"} & collection.keys() == {"get"}
        status, _ = await api.request("GET", "/openapi/v2")
        assert status == 200


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/namespaces/a/stations", {}),
        ("PUT", "/namespaces/a/stations/north", {}),
        ("PATCH", "/namespaces/a/stations/north", {}),
        ("DELETE", "/namespaces/a/stations/north", {}),
        ("DELETE", "/namespaces/a/stations", {}),
        ("GET", "/stations", {"watch": "true"}),
    ],
)
async def test_a_computed_kind_cannot_be_written_or_watched(method: str, path: str, query: dict[str, str]) -> None:
    async with serving() as api:
        status, body = await api.request(method, PATH + path, **query)
        assert (status, body["reason"]) == (405, "MethodNotAllowed")


async def test_the_client_gets_the_error_of_the_source() -> None:
    async def fail(_: str | None) -> Iterable[Object]:
        raise TooManyRequests("the station is busy")

    async with serving(fail) as api:
        status, body = await api.request("GET", f"{PATH}/stations")
        assert (status, body["message"]) == (429, "the station is busy")


async def test_a_kind_that_is_served_already_cannot_be_computed() -> None:
    async with serving() as api:
        with pytest.raises(ConfigError, match=r"stations\.weather\.example\.dev: this kind is served already"):
            api.server.serve_computed(DEFINITION, measure)
