"""A system is controllers with all they need: opened together, closed together, on a server of its own."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from levelset import Context, Controller, Object, ObjectMeta, Ref, Resource, Spec, Status, System
from levelset.apiserver import Asked
from levelset.errors import BadRequest, ConfigError
from levelset.runtime.manager.local_server import open_local
from levelset.runtime.manager.system import join, open_parts


class NoteSpec(Spec):
    text: str


class NoteStatus(Status):
    read: str = ""


class Note(Resource[NoteSpec, NoteStatus], api="notes.example.dev/v1"):
    """What somebody wrote."""


class Margin(Resource[NoteSpec, NoteStatus], api="notes.example.dev/v1"):
    """What no controller is for."""


class Pod(Object, api="v1"):
    pass


class Service(Resource[Spec, Status], api="v1"):
    pass


async def reconcile(note: Note, ctx: Context) -> None:
    await ctx.set_status(note, NoteStatus(read=note.spec.text))


async def log(asked: Asked) -> AsyncIterator[bytes]:
    if "since" in asked.query:
        raise BadRequest("since: there was nothing before")

    async def lines() -> AsyncIterator[bytes]:
        yield f"{asked.tree['spec']['text']}\n".encode()
        yield b"end\n"

    return lines()


notes = Controller(Note, reconcile)
system = System(name="notes", controllers=[notes], kinds=[Margin], logs={Note: log}, service_addresses="127.99.0.0/24")


async def test_a_system_runs_on_a_server_of_its_own() -> None:
    async with open_local(system) as local:
        await local.client.create(Note.new("one", NoteSpec(text="hello"), namespace="default"))
        seen = await local.client.wait(Ref(Note, "one", "default"), lambda one: bool(one.status and one.status.read))
        assert seen.status is not None
        assert seen.status.read == "hello"
        await local.client.create(Margin.new("two", NoteSpec(text="also served"), namespace="default"))


async def test_the_log_of_an_object_is_answered_by_its_system() -> None:
    async with open_local(system) as local:
        await local.client.create(Note.new("one", NoteSpec(text="hello"), namespace="default"))
        async with local.client.logs(Ref(Note, "one", "default")) as lines:
            assert [line async for line in lines] == ["hello", "end"]


async def test_services_get_the_addresses_of_the_system() -> None:
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


async def test_what_is_opened_around_a_system_may_give_the_rest_of_it() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def around() -> AsyncGenerator[System, None]:
        told.append("open")
        yield System(name="rest", controllers=[notes], hints=["kubectl get notes"])
        told.append("closed")

    async with open_parts(System(name="late", around=around)) as whole:
        assert whole.controllers == [notes]
        assert whole.hints == ["kubectl get notes"]
        assert told == ["open"]
    assert told == ["open", "closed"]


async def test_every_setup_is_called_with_the_manager() -> None:
    told: list[str] = []
    several = [System(name=name, setup=lambda _: told.append("called")) for name in ("a", "b")]
    async with open_local(notes, *several):
        assert told == ["called", "called"]


def test_what_each_system_serves_is_said_together() -> None:
    pages = System(name="pages", urls={"pages": "http://127.0.0.1:1"})
    both = join(pages, System(name="notes"), System(name="more", urls={"more": "http://127.0.0.1:2"}))
    assert both.urls == {"pages": "http://127.0.0.1:1", "more": "http://127.0.0.1:2"}


def test_two_systems_cannot_both_say_where_services_are() -> None:
    with pytest.raises(ConfigError, match="systems notes, other: each wants other addresses for services"):
        join(system, System(name="other", service_addresses="127.98.0.0/24"))


async def test_a_range_for_services_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"addresses of services '127\.0\.0\.1': it has 1; give a range such as"):
        async with open_local(notes, System(name="odd", service_addresses="127.0.0.1")):
            raise AssertionError


async def test_objects_outlive_the_server_in_its_file(tmp_path: object) -> None:
    data = f"{tmp_path}/notes.db"
    meta = ObjectMeta(name="one", namespace="default")
    async with open_local(notes, data=data) as local:
        await local.client.create(Note(metadata=meta, spec=NoteSpec(text="kept")))
    async with open_local(notes, data=data) as local:
        assert (await local.client.get(Ref(Note, "one", "default"))).spec.text == "kept"
