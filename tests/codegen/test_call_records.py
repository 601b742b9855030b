"""What a program really asks for, beside what it is allowed to."""

import asyncio
from typing import Any

import pytest

from levelset import LeaderElection, ObjectMeta
from levelset.client.transport.interface import Call
from levelset.codegen.call_records import CallRecords, Recorded, check_rules, compare_rules, read_call
from levelset.codegen.rbac import Permission, infer_permissions, permit, read_permissions, roles_of
from levelset.errors import ConfigError
from tests.apiserver.clock import virtual
from tests.stories.examples import load
from tests.stories.operating import operating
from tests.stories.world import open_world

website: Any = load("03_website")

RULES = infer_permissions([website.websites], namespace="default", lease="sites")


async def live_and_die(people) -> None:
    """A site comes, is served, and goes."""
    secret = website.Secret(metadata=ObjectMeta(name="blog-tls", namespace="default"))
    await people.create(secret)
    spec = website.WebsiteSpec(image="blog:1", certificate="blog-tls")
    made = await people.create(website.Website.new("blog", spec, namespace="default"))
    await asyncio.sleep(30)
    running = await people.get(website.Deployment, "blog", namespace="default")
    await people.update_status(running.with_status(website.DeploymentStatus(ready_replicas=1)))
    await asyncio.sleep(30)
    await people.delete(made.ref)
    await asyncio.sleep(30)


@virtual
async def test_the_rules_of_the_website_example_are_exactly_what_it_asks_for():
    calls = CallRecords()
    async with open_world(website.Website) as (world, people):
        leader = LeaderElection(name="sites", namespace="default")
        async with operating(world, website.websites, hooks=(calls.hook,), leader=leader):
            await live_and_die(people)
    check_rules(calls, RULES)
    resources = {one.resource for one in calls}
    assert resources == {"deployments", "events", "leases", "secrets", "websites", "websites/status"}


@virtual
async def test_a_rule_that_is_missing_and_one_that_nobody_uses_are_told_in_sentences():
    calls = CallRecords()
    async with open_world(website.Website) as (world, people), operating(world, website.websites, hooks=(calls.hook,)):
        await live_and_die(people)
    rules = [one for one in RULES if one.resource not in ("leases", "websites/status")]
    problems = compare_rules(calls, [*rules, permit(website.Secret, "delete", why="tidies up")])
    missing, unused = problems
    assert missing == (
        "patch websites/status of example.dev in default is asked for, and no rule allows it: "
        'declare Permission("example.dev", "websites/status", ["patch"])'
    )
    assert unused == (
        "delete secrets is allowed (tidies up), and nothing asked for it: test what needs it, or take it away"
    )


def test_the_roles_that_are_written_allow_what_was_inferred():
    roles = roles_of(RULES, name="sites", account="sites", namespace="default")
    calls = [
        Recorded("watch", "example.dev", "websites"),
        Recorded("patch", "apps", "deployments", "anywhere", "blog"),
        Recorded("update", "coordination.k8s.io", "leases", "default", "sites"),
    ]
    assert all("no rule" not in one for one in compare_rules(calls, read_permissions(roles)))
    other = [Recorded("update", "coordination.k8s.io", "leases", "default", "other")]
    assert "no rule allows it" in compare_rules(other, read_permissions(roles))[0]


@pytest.mark.parametrize(
    ("method", "path", "verb", "found"),
    [
        ("GET", "/api/v1/pods", "list", Recorded("list", "", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/b/log", "get", Recorded("get", "", "pods/log", "a", "b")),
        ("GET", "/api/v1/namespaces/a", "get", Recorded("get", "", "namespaces", None, "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", "", Recorded("update", "", "namespaces/finalize", None, "a")),
        ("POST", "/apis/apps/v1/namespaces/a/deployments", "", Recorded("create", "apps", "deployments", "a")),
        ("PATCH", "/apis/x.dev/v1/things/a%3Ab/scale", "", Recorded("patch", "x.dev", "things/scale", None, "a:b")),
        ("GET", "/apis/apps/v1", "", None),
        ("GET", "/api", "", None),
        ("GET", "/healthz", "", None),
        ("GET", "/", "", None),
    ],
)
def test_a_call_is_read_as_an_authorizer_reads_it(method, path, verb, found):
    assert read_call(Call(method=method, path=path, verb=verb)) == found


def test_rules_that_fit_are_silent_and_others_are_an_error():
    calls = [Recorded("get", "", "pods", "a", "b")]
    check_rules(calls, [Permission("", "pods", ["get"])])
    check_rules(calls, [Permission("", "*", ["*"], names=["b"], namespace="a")])
    check_rules([], [Permission("", "pods", ["get"], rarely=True)])
    check_rules([Recorded("create", "authorization.k8s.io", "selfsubjectaccessreviews")], [])
    for rule in (Permission("", "pods", ["get"], namespace="c"), Permission("", "pods", ["get"], names=["c"])):
        with pytest.raises(ConfigError, match="no rule allows it"):
            check_rules(calls, [rule])
    assert str(calls[0]) == "get pods b in a"
