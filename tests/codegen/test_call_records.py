"""Recorded calls of a program, compared with its permissions."""

import asyncio
from typing import Any

import pytest

from levelset import LeaderElection, ObjectMeta
from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call
from levelset.codegen.call_records import CallRecords, RecordedCall, check_rules, compare_rules, read_call
from levelset.codegen.rbac import Permission, infer_permissions, permit, read_permissions, roles_of
from levelset.errors import ConfigError
from levelset.testing.virtual_time import virtual
from tests.stories.examples import load
from tests.stories.operator_process import run_operator
from tests.stories.restartable_server import open_restartable_server

website: Any = load("03_website")

RULES = infer_permissions([website.websites], namespace="default", lease="sites")


async def create_and_delete_a_site(user) -> None:
    """Creates a site, lets it be served, and deletes it."""
    secret = website.Secret(metadata=ObjectMeta(name="blog-tls", namespace="default"))
    await user.create(secret)
    spec = website.WebsiteSpec(image="blog:1", certificate="blog-tls")
    made = await user.create(website.Website.new("blog", spec, namespace="default"))
    await asyncio.sleep(30)
    running = await user.get(website.Deployment, "blog", namespace="default")
    status = {"status": {"replicas": 1, "readyReplicas": 1}}
    await user.patch(running.ref, MergePatch(status), subresource="status")
    await asyncio.sleep(30)
    await user.delete(made.ref)
    await asyncio.sleep(30)


@virtual
async def test_the_rules_of_the_website_example_are_exactly_what_it_uses():
    calls = CallRecords()
    async with open_restartable_server(website.Website) as (server, user):
        leader = LeaderElection(name="sites", namespace="default")
        async with run_operator(server, website.websites, hooks=(calls.hook,), leader=leader):
            await create_and_delete_a_site(user)
    check_rules(calls, RULES)
    resources = {one.resource for one in calls}
    assert resources == {"deployments", "events", "leases", "secrets", "websites", "websites/status"}


@virtual
async def test_missing_and_unused_rules_are_reported():
    calls = CallRecords()
    async with (
        open_restartable_server(website.Website) as (server, user),
        run_operator(server, website.websites, hooks=(calls.hook,)),
    ):
        await create_and_delete_a_site(user)
    rules = [one for one in RULES if one.resource not in ("leases", "websites/status")]
    problems = compare_rules(calls, [*rules, permit(website.Secret, "delete", why="tidies up")])
    missing, unused = problems
    assert missing == (
        "patch websites/status of example.dev in default is used, but no rule allows it: "
        'declare Permission("example.dev", "websites/status", ["patch"])'
    )
    assert unused == ("delete secrets is allowed (tidies up), but no call used it: test what needs it, or remove it")


def test_the_generated_roles_allow_what_was_inferred():
    roles = roles_of(RULES, name="sites", account="sites", namespace="default")
    calls = [
        RecordedCall("watch", "example.dev", "websites"),
        RecordedCall("patch", "apps", "deployments", "anywhere", "blog"),
        RecordedCall("update", "coordination.k8s.io", "leases", "default", "sites"),
    ]
    assert all("no rule" not in one for one in compare_rules(calls, read_permissions(roles)))
    other = [RecordedCall("update", "coordination.k8s.io", "leases", "default", "other")]
    assert "no rule allows it" in compare_rules(other, read_permissions(roles))[0]


@pytest.mark.parametrize(
    ("method", "path", "verb", "found"),
    [
        ("GET", "/api/v1/pods", "list", RecordedCall("list", "", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/b/log", "get", RecordedCall("get", "", "pods/log", "a", "b")),
        ("GET", "/api/v1/namespaces/a", "get", RecordedCall("get", "", "namespaces", None, "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", "", RecordedCall("update", "", "namespaces/finalize", None, "a")),
        ("POST", "/apis/apps/v1/namespaces/a/deployments", "", RecordedCall("create", "apps", "deployments", "a")),
        ("PATCH", "/apis/x.dev/v1/things/a%3Ab/scale", "", RecordedCall("patch", "x.dev", "things/scale", None, "a:b")),
        ("GET", "/apis/apps/v1", "", None),
        ("GET", "/api", "", None),
        ("GET", "/healthz", "", None),
        ("GET", "/", "", None),
    ],
)
def test_a_call_is_parsed_as_request_attributes(method, path, verb, found):
    assert read_call(Call(method=method, path=path, verb=verb)) == found


def test_matching_rules_pass_and_others_raise():
    calls = [RecordedCall("get", "", "pods", "a", "b")]
    check_rules(calls, [Permission("", "pods", ["get"])])
    check_rules(calls, [Permission("", "*", ["*"], names=["b"], namespace="a")])
    check_rules([], [Permission("", "pods", ["get"], rarely=True)])
    check_rules([RecordedCall("create", "authorization.k8s.io", "selfsubjectaccessreviews")], [])
    for rule in (Permission("", "pods", ["get"], namespace="c"), Permission("", "pods", ["get"], names=["c"])):
        with pytest.raises(ConfigError, match="no rule allows it"):
            check_rules(calls, [rule])
    assert str(calls[0]) == "get pods b in a"
