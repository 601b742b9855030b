"""The operators of the examples do what their docstrings say."""

import asyncio
from typing import Any

from levelset import Client, Controller, GroupVersionKind, ObjectMeta, Ref, replace
from levelset.client.patches import MergePatch
from levelset.testing.virtual_time import virtual
from tests.stories.examples import load
from tests.stories.operator_process import run_operator
from tests.stories.restartable_server import RestartableServer, open_restartable_server

hello: Any = load("02_hello")
website: Any = load("03_website")

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


def blog(**spec: Any) -> Any:
    wanted = {"image": "blog:1", "certificate": "blog-tls", **spec}
    return website.Website.new("blog", website.WebsiteSpec(**wanted), namespace="default")


def secret(name: str = "blog-tls") -> Any:
    return website.Secret(metadata=ObjectMeta(name=name, namespace="default"))


async def deployment(client: Client) -> Any:
    return await client.find(Ref(website.Deployment, "blog", "default"))


async def served(client: Client) -> Any:
    """A blog with its certificate and its Deployment."""
    await client.create(secret())
    await client.create(blog())
    await asyncio.sleep(1)
    return await deployment(client)


@virtual
async def test_a_greeting_gets_its_message() -> None:
    async with open_restartable_server(hello.Greeting) as (server, people):
        greeting = hello.Greeting.new("world", hello.GreetingSpec(name="world"), namespace="default")
        async with run_operator(server, Controller(hello.Greeting, hello.greet)):
            made = await people.create(greeting)
            greeted = await people.wait(made.ref, lambda one: one.status is not None)
            assert greeted.status.message == "Hello, world!"
            await people.update(greeted.with_spec(name="moon"))
            await people.wait(made.ref, lambda one: one.status.message == "Hello, moon!")
        assert len(server.writes(who="operator")) == 2


@virtual
async def test_a_site_waits_for_its_certificate_and_is_served_when_it_comes() -> None:
    async with open_restartable_server(website.Website) as (server, people), run_operator(server, website.websites):
        await people.create(blog())
        await asyncio.sleep(10)
        assert await deployment(people) is None
        await people.create(secret("another"))
        await people.create(secret())
        await asyncio.sleep(1)
        assert (await deployment(people)).spec.template["spec"]["containers"][0]["image"] == "blog:1"


@virtual
async def test_the_spec_of_a_site_reaches_its_deployment_and_the_status_comes_back() -> None:
    async with open_restartable_server(website.Website) as (server, people), run_operator(server, website.websites):
        running = await served(people)
        await people.update((await people.get(blog().ref)).with_spec(replicas=3))
        await asyncio.sleep(1)
        running = await deployment(people)
        assert running.spec.replicas == 3
        status = {"status": {"replicas": 3, "readyReplicas": 2}}
        await people.patch(running.ref, MergePatch(status), subresource="status")
        await asyncio.sleep(1)
        assert (await people.get(blog().ref)).status.ready == 2


@virtual
async def test_a_deleted_or_changed_deployment_is_restored() -> None:
    async with open_restartable_server(website.Website) as (server, people), run_operator(server, website.websites):
        running = await served(people)
        await people.update(running.with_spec(replicas=9))
        await asyncio.sleep(1)
        assert (await deployment(people)).spec.replicas == 1
        await people.delete(running.ref)
        await asyncio.sleep(1)
        assert (await deployment(people)).metadata.uid != running.metadata.uid


@virtual
async def test_fields_of_other_managers_in_a_deployment_stay() -> None:
    async with open_restartable_server(website.Website) as (server, people), run_operator(server, website.websites):
        running = await served(people)
        await people.update(running.with_metadata(annotations={"example.dev/note": "ours"}))
        await people.update((await people.get(blog().ref)).with_spec(image="blog:2"))
        await asyncio.sleep(1)
        assert (await deployment(people)).metadata.annotations["example.dev/note"] == "ours"


@virtual
async def test_a_deleted_site_is_cleaned_up_first_and_its_deployment_is_deleted_with_it() -> None:
    async with open_restartable_server(website.Website) as (server, people):
        async with run_operator(server, website.websites):
            await served(people)
            await people.delete(blog().ref)
            await people.wait_gone(blog().ref)
            await asyncio.sleep(5)
            assert await deployment(people) is None
        assert "TakenDown" in await reasons(people)


async def reasons(client: Client) -> set[str]:
    """The reasons of the events that were recorded."""
    return {one.tree["reason"] for one in await client.list(EVENT, namespace="default")}


@virtual
async def test_nothing_is_written_twice_while_a_site_waits() -> None:
    async with open_restartable_server(website.Website) as (server, people), run_operator(server, website.websites):
        await people.create(blog())
        await asyncio.sleep(300)
        assert finalizers_only(server)
        site = await people.get(blog().ref)
        assert len(site.metadata.finalizers) == 1
        assert replace(site) == site


def finalizers_only(server: RestartableServer) -> bool:
    """Whether the operator wrote its finalizer and nothing else."""
    return [one.method for one in server.writes(who="operator")] == ["PATCH"]
