"""Several servers on one storage: what one commits, the others serve; the storage decides what must be unique."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver.authn.secret_box import SecretBox
from levelset.apiserver.controllers.controller_lease import NAME, NAMESPACE
from levelset.http import CertificateAuthority
from levelset.storage import MemoryStorage, SqliteStorage
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server, widgets
from tests.apiserver.support.replica_storage import ReplicaStorage

NEVER = float("inf")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
NAMESPACES = "/api/v1/namespaces"
SERVICES = "/api/v1/namespaces/default/services"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


@asynccontextmanager
async def open_replicas(
    number: int = 2, *, delay: float = 0.0, **options: Any
) -> AsyncGenerator[list[InProcessServer], None]:
    central = MemoryStorage()
    async with AsyncExitStack() as stack:
        storages = [await stack.enter_async_context(ReplicaStorage(central, delay=delay)) for _ in range(number)]
        for one in storages:
            await one.wait_current()
        yield [await stack.enter_async_context(open_server(storage, **options)) for storage in storages]


def service(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_a_definition_of_one_replica_is_served_by_another_that_has_not_seen_it_yet() -> None:
    async with open_replicas(delay=NEVER) as (one, other):
        await one.create(CRDS, widgets())
        assert (await other.create(WIDGETS, WIDGET))["metadata"]["name"] == "w"
        await one.request("DELETE", f"{CRDS}/widgets.example.com")
        await one.server.idle()
        await other.storage.wait_current()  # type: ignore[attr-defined]
        assert (await other.send("GET", WIDGETS)).status == 404


async def test_a_namespace_an_object_and_its_newest_version_are_known_to_a_replica_that_is_behind() -> None:
    async with open_replicas(delay=NEVER) as (one, other):
        await one.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await other.create("/api/v1/namespaces/shop/configmaps", configmap("a"))
        made = await one.create(CONFIGMAPS, configmap("b"))
        status, patched = await other.request(
            "PATCH", f"{CONFIGMAPS}/b", {"data": {"k": "1"}}, kind="application/merge-patch+json"
        )
        assert (status, patched["data"]) == (200, {"k": "1"})
        status, _ = await one.request("PUT", f"{CONFIGMAPS}/b", {**patched, "data": {"k": "2"}})
        assert status == 200
        status, _ = await other.request("PUT", f"{CONFIGMAPS}/b", {**made, "data": {"k": "3"}})
        assert status == 409
        assert (await other.request("DELETE", f"{CONFIGMAPS}/none"))[0] == 404


async def test_the_listeners_of_each_replica_get_every_write_once_and_in_the_order_of_revisions() -> None:
    async with open_replicas() as replicas:
        seen: list[list[int]] = [[], []]
        for api, revisions in zip(replicas, seen, strict=True):

            def note(served: Any, before: Any, after: Any, revisions: list[int] = revisions) -> None:
                if served.plural == "configmaps" and after is not None:
                    revisions.append(int(after["metadata"]["resourceVersion"]))

            api.server.state.listeners.append(note)
        made = await asyncio.gather(
            *(replicas[number % 2].create(CONFIGMAPS, configmap(f"m{number}")) for number in range(10))
        )
        await asyncio.sleep(0.01)
        assert seen[0] == seen[1] == sorted(int(tree["metadata"]["resourceVersion"]) for tree in made)


async def test_roles_and_policies_of_one_replica_hold_on_another() -> None:
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'bad'"}],
        },
    }
    api = "/apis/admissionregistration.k8s.io/v1"
    async with open_replicas(rbac=True) as (one, other):
        await one.create(f"{api}/validatingadmissionpolicies", policy)
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        await one.create(f"{api}/validatingadmissionpolicybindings", binding)
        role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
        await one.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        await asyncio.sleep(0.01)
        assert (await other.request("POST", CONFIGMAPS, configmap("bad")))[0] == 422
        rbac = other.server.state.rbac
        assert rbac is not None
        assert "r" in rbac.cluster_roles


@pytest.mark.parametrize("delay", [0.0, NEVER])
async def test_two_services_never_have_one_address_or_node_port(delay: float) -> None:
    async with open_replicas(3, delay=delay) as replicas:
        for one in replicas:  # all of them would choose the same
            strategy = one.server._components.kinds.services
            strategy._cluster_ips.start_at(0)
            strategy._node_ports.start_at(0)
        creates = [
            replicas[number % 3].create(SERVICES, service(f"s{number}", type="NodePort")) for number in range(30)
        ]
        made = await asyncio.gather(*creates)
        assert len({one["spec"]["clusterIP"] for one in made}) == 30
        assert len({one["spec"]["ports"][0]["nodePort"] for one in made}) == 30


@pytest.mark.parametrize("delay", [0.0, NEVER])
async def test_of_two_services_that_request_one_address_exactly_one_gets_it(delay: float) -> None:
    async with open_replicas(delay=delay) as (one, other):
        answers = await asyncio.gather(
            one.request("POST", SERVICES, service("a", clusterIP="10.96.7.7")),
            other.request("POST", SERVICES, service("b", clusterIP="10.96.7.7")),
        )
        assert sorted(status for status, _ in answers) == [201, 422]
        (refused,) = [tree for status, tree in answers if status == 422]
        assert "already allocated" in refused["message"]
        (winner,) = [tree["metadata"]["name"] for status, tree in answers if status == 201]
        await other.request("DELETE", f"{SERVICES}/{winner}")
        await one.storage.wait_current()  # type: ignore[attr-defined]
        assert (await one.request("POST", SERVICES, service("c", clusterIP="10.96.7.7")))[0] == 201


@pytest.mark.parametrize("delay", [0.0, NEVER])
async def test_of_two_definitions_with_the_same_names_exactly_one_is_established(delay: float) -> None:
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]}
    other_names = {"plural": "gadgets", "kind": "Gadget", "shortNames": ["w"]}
    second = {**widgets(names=other_names), "metadata": {"name": "gadgets.example.com"}}
    async with open_replicas(delay=delay) as (one, other):
        made = await asyncio.gather(one.create(CRDS, widgets(names=names)), other.create(CRDS, second))
        accepted = [
            next(c["status"] for c in tree["status"]["conditions"] if c["type"] == "NamesAccepted") for tree in made
        ]
        assert sorted(accepted) == ["False", "True"]
        (loser,) = [tree for tree, state in zip(made, accepted, strict=True) if state == "False"]
        assert "shortNames" not in loser["status"]["acceptedNames"]


async def test_a_create_on_one_replica_does_not_pass_the_deletion_of_its_namespace_on_another() -> None:
    async with open_replicas(delay=NEVER) as (one, other):
        await one.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await other.create("/api/v1/namespaces/shop/configmaps", configmap("a"))
        await one.request("DELETE", f"{NAMESPACES}/shop")
        status, refused = await other.request("POST", "/api/v1/namespaces/shop/configmaps", configmap("b"))
        assert (status, refused["reason"]) in [(403, "Forbidden"), (404, "NotFound")]
        await one.server.idle()
        await other.storage.wait_current()  # type: ignore[attr-defined]
        assert (await other.request("GET", f"{NAMESPACES}/shop"))[0] == 404
        assert (await other.storage.list("/registry/core/configmaps/shop/")).items == ()


async def test_a_create_does_not_pass_the_deletion_of_its_definition_on_another_replica() -> None:
    async with open_replicas(delay=NEVER) as (one, other):
        await one.create(CRDS, widgets())
        await other.create(WIDGETS, WIDGET)
        await one.request("DELETE", f"{CRDS}/widgets.example.com")
        tree = {**WIDGET, "metadata": {"name": "late"}}
        assert (await other.send("POST", WIDGETS, tree)).status in (403, 404, 405)
        await one.server.idle()
        assert (await one.storage.list("/registry/example.com/widgets/")).items == ()


async def test_a_namespace_whose_labels_change_meanwhile_does_not_refuse_a_create() -> None:
    async with open_replicas(delay=NEVER) as (one, other):
        labels = {"metadata": {"labels": {"a": "b"}}}
        await one.request("PATCH", f"{NAMESPACES}/default", labels, kind="application/merge-patch+json")
        await other.create(CONFIGMAPS, configmap("a"))


@virtual
async def test_the_controllers_run_on_one_replica_and_the_next_one_takes_over_when_it_stops() -> None:
    central = MemoryStorage()
    async with ReplicaStorage(central) as first, ReplicaStorage(central) as second, open_server(second) as other:
        one = InProcessServer(server := other.server.__class__(first), first)
        await server.start(listen=False)
        assert [held(one), held(other)] == [False, True]
        await other.server._components.lease.stop()  # type: ignore[union-attr]
        await asyncio.sleep(0.5)
        assert held(one)
        spec = (await one.request("GET", LEASE))[1]["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (one.server._components.lease.identity, 2)  # type: ignore[union-attr]
        await server.stop()


@virtual
async def test_a_replica_that_vanishes_loses_the_controllers_after_seconds_and_nothing_is_left_undone() -> None:
    async with open_replicas() as (one, other):
        assert [held(one), held(other)] == [True, False]
        lease = one.server._components.lease
        assert lease is not None
        assert lease._task is not None
        lease._task.cancel()  # as if its process had ended: it neither renews nor works
        await one.server._components._pause()
        owner = await one.create(CONFIGMAPS, configmap("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await other.create(CONFIGMAPS, configmap("child", owners=[reference]))
        await other.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await other.create("/api/v1/namespaces/shop/configmaps", configmap("a"))
        await one.request("DELETE", f"{CONFIGMAPS}/owner")
        await one.request("DELETE", f"{NAMESPACES}/shop")
        await asyncio.sleep(4)
        assert (await other.request("GET", f"{CONFIGMAPS}/child"))[0] == 200
        await asyncio.sleep(6)
        assert held(other)
        await other.server.idle()
        assert (await other.request("GET", f"{CONFIGMAPS}/child"))[0] == 404
        assert (await other.request("GET", f"{NAMESPACES}/shop"))[0] == 404


@virtual
async def test_a_holder_that_cannot_renew_stops_its_controllers_before_another_may_begin() -> None:
    async with open_replicas() as (one, other):
        storage = one.storage

        async def fail(*_: object, **__: object) -> None:
            raise TimeoutError

        for name in ("transact", "put"):
            setattr(storage, name, fail)
        await asyncio.sleep(5)
        assert [held(one), held(other)] == [False, False]
        await asyncio.sleep(6)
        assert [held(one), held(other)] == [False, True]


async def test_a_service_account_token_of_one_replica_is_accepted_by_another_and_its_key_is_not_readable() -> None:
    authority = CertificateAuthority.create("test")
    async with open_replicas(authority=authority, rbac=True) as (one, other):
        await one.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        made = await one.create(f"{ACCOUNTS}/robot/token", {"spec": {}})
        review = {"spec": {"token": made["status"]["token"]}}
        found = await other.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert found["status"]["user"]["username"] == "system:serviceaccount:default:robot"
        key = one.server._components.service_account_tokens._key
        assert key is not None
        stored = (await one.storage.list("/levelset/secrets/")).items
        assert [item.key for item in stored] == ["/levelset/secrets/token-signing"]
        assert all(key not in item.value and base64.b64encode(key) not in item.value for item in stored)
        tree = SecretBox.derived_from(authority.identity.key).open("token-signing", stored[0].value)
        assert base64.b64encode(key) in tree


async def test_without_an_authority_or_a_key_no_signing_key_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    async with open_replicas() as (one, _):
        await one.create(ACCOUNTS, {"metadata": {"name": "robot"}})
        await one.create(f"{ACCOUNTS}/robot/token", {"spec": {}})
        assert (await one.storage.list("/levelset/secrets/")).items == ()
        assert "end with it" in caplog.text


def held(api: InProcessServer) -> bool:
    lease = api.server._components.lease
    assert lease is not None
    return lease.is_held


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_two_servers_of_one_process_on_one_storage_agree(kind: str, tmp_path: Any) -> None:
    opened = MemoryStorage() if kind == "memory" else await SqliteStorage.open(tmp_path / "a.db")
    async with opened as storage, open_server(storage) as one, open_server(storage) as other:
        await one.create(CRDS, widgets())
        await other.create(WIDGETS, WIDGET)
        made = await asyncio.gather(
            *(
                api.create(SERVICES, service(f"s{number}{index}"))
                for number in range(10)
                for index, api in enumerate((one, other))
            )
        )
        assert len({tree["spec"]["clusterIP"] for tree in made}) == 20
        answers = await asyncio.gather(
            one.request("POST", SERVICES, service("a", clusterIP="10.96.7.7")),
            other.request("POST", SERVICES, service("b", clusterIP="10.96.7.7")),
        )
        assert sorted(status for status, _ in answers) == [201, 422]
        owner = await one.create(CONFIGMAPS, configmap("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await other.create(CONFIGMAPS, configmap("child", owners=[reference]))
        await other.request("DELETE", f"{CONFIGMAPS}/owner")
        await one.server.idle()
        await other.server.idle()
        assert (await one.request("GET", f"{CONFIGMAPS}/child"))[0] == 404


async def test_services_of_an_earlier_version_get_their_claims_at_the_start() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        await api.create(SERVICES, service("a", clusterIP="10.96.7.7"))
        claim = "/levelset/claims/clusterips/10.96.7.7"
        await storage.delete(claim, expected=None)
    async with open_server(storage) as api:
        assert storage.get_nowait(claim) is not None
        await api.request("DELETE", f"{SERVICES}/a")
        assert storage.get_nowait(claim) is None
