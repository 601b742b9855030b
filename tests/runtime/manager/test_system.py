"""Systems: controllers with their resources, opened and closed together, on an embedded server."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from levelset import Context, Controller, Object, ObjectMeta, Ref, Resource, Spec, Status, System
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest, ConfigError
from levelset.runtime.manager.local_server import open_local
from levelset.runtime.manager.system import join, open_parts


class NoteSpec(Spec):
    text: str


class NoteStatus(Status):
    read: str = ""


class Note(Resource[NoteSpec, NoteStatus], api="notes.example.dev/v1"):
    """A note."""


class Margin(Resource[NoteSpec, NoteStatus], api="notes.example.dev/v1"):
    """A kind that no controller reconciles."""


class Pod(Object, api="v1"):
    pass


class Service(Resource[Spec, Status], api="v1"):
    pass


async def reconcile(note: Note, ctx: Context) -> None:
    await ctx.set_status(note, NoteStatus(read=note.spec.text))


async def log(request: LogRequest) -> AsyncIterator[bytes]:
    if "since" in request.query:
        raise BadRequest("since: there was nothing before")

    async def lines() -> AsyncIterator[bytes]:
        yield f"{request.tree['spec']['text']}\n".encode()
        yield b"end\n"

    return lines()


notes = Controller(Note, reconcile)
system = System(name="notes", controllers=[notes], kinds=[Margin], logs={Note: log}, service_addresses="127.99.0.0/24")


async def test_a_system_runs_on_its_own_server() -> None:
    async with open_local(system) as local:
        await local.client.create(Note.new("one", NoteSpec(text="hello"), namespace="default"))
        seen = await local.client.wait(Ref(Note, "one", "default"), lambda one: bool(one.status and one.status.read))
        assert seen.status is not None
        assert seen.status.read == "hello"
        await local.client.create(Margin.new("two", NoteSpec(text="also served"), namespace="default"))


async def test_the_log_of_an_object_comes_from_its_system() -> None:
    async with open_local(system) as local:
        await local.client.create(Note.new("one", NoteSpec(text="hello"), namespace="default"))
        async with local.client.logs(Ref(Note, "one", "default")) as lines:
            assert [line async for line in lines] == ["hello", "end"]


async def test_services_get_addresses_from_the_range_of_the_system() -> None:
    async with open_local(system) as local:
        made = await local.client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"ports": [{"port": 80}]},
            }
        )
        assert made.tree["spec"]["clusterIP"].startswith("127.99.0.")


async def test_around_may_yield_the_rest_of_a_system() -> None:
    calls: list[str] = []

    @asynccontextmanager
    async def around() -> AsyncGenerator[System, None]:
        calls.append("open")
        yield System(name="rest", controllers=[notes], hints=["kubectl get notes"])
        calls.append("closed")

    async with open_parts(System(name="late", around=around)) as whole:
        assert whole.controllers == [notes]
        assert whole.hints == ["kubectl get notes"]
        assert calls == ["open"]
    assert calls == ["open", "closed"]


async def test_every_setup_is_called_with_the_manager() -> None:
    calls: list[str] = []
    several = [System(name=name, setup=lambda _: calls.append("called")) for name in ("a", "b")]
    async with open_local(notes, *several):
        assert calls == ["called", "called"]


def test_the_urls_of_all_systems_are_printed_together() -> None:
    pages = System(name="pages", urls={"pages": "http://127.0.0.1:1"})
    both = join(pages, System(name="notes"), System(name="more", urls={"more": "http://127.0.0.1:2"}))
    assert both.urls == {"pages": "http://127.0.0.1:1", "more": "http://127.0.0.1:2"}


def test_two_systems_with_different_service_ranges_raise_a_config_error() -> None:
    with pytest.raises(ConfigError, match="systems notes, other: each needs a different address range for Services"):
        join(system, System(name="other", service_addresses="127.98.0.0/24"))


async def test_an_invalid_service_range_raises_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"service CIDR '127\.0\.0\.1' has only 1 addresses; use a range such as"):
        async with open_local(notes, System(name="odd", service_addresses="127.0.0.1")):
            raise AssertionError


async def test_objects_in_a_file_outlive_the_server(tmp_path: object) -> None:
    data = f"{tmp_path}/notes.db"
    meta = ObjectMeta(name="one", namespace="default")
    async with open_local(notes, data=data) as local:
        await local.client.create(Note(metadata=meta, spec=NoteSpec(text="stored")))
    async with open_local(notes, data=data) as local:
        assert (await local.client.get(Ref(Note, "one", "default"))).spec.text == "stored"


async def test_disabled_features_that_take_a_while_to_find_are_not_searched_at_the_opening() -> None:
    searched: list[str] = []

    def search(name: str) -> Callable[[], Awaitable[dict[str, str]]]:
        async def find() -> dict[str, str]:
            searched.append(name)
            return {name: f"start {name}"}

        return find

    slow = [System(name=name, find_disabled=search(name)) for name in ("docker", "podman")]
    async with open_parts(*slow, system) as whole:
        assert searched == []
        assert whole.find_disabled is not None
        assert await whole.find_disabled() == {"docker": "start docker", "podman": "start podman"}
    async with open_parts(system) as whole:
        assert whole.find_disabled is None
