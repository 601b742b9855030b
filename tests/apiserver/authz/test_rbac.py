import pytest

from levelset.storage import MemoryStorage
from tests.apiserver.support.rbac_server import RBAC, binding, open_rbac_server, role, rule

MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_everything_is_denied_that_no_rule_allows() -> None:
    async with open_rbac_server() as api:
        status, tree = await api.request("jane", "GET", MAPS)
        assert (status, tree["reason"], tree["details"]) == (403, "Forbidden", {"kind": "configmaps"})
        where = 'resource "configmaps" in API group "" in the namespace "default"'
        assert tree["message"] == f'configmaps is forbidden: User "jane" cannot list {where}'


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", f"{MAPS}/a", "get"),
        ("GET", MAPS, "list"),
        ("POST", MAPS, "create"),
        ("PUT", f"{MAPS}/a", "update"),
        ("PATCH", f"{MAPS}/a", "patch"),
        ("DELETE", f"{MAPS}/a", "delete"),
        ("DELETE", MAPS, "deletecollection"),
        ("GET", "/api/v1/watch/namespaces/default/configmaps", "watch"),
        ("GET", "/api/v1/watch/namespaces/default/configmaps/a", "watch"),
        ("HEAD", MAPS, "head"),
    ],
)
async def test_every_request_is_authorized_by_its_verb(method: str, path: str, verb: str) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", MAPS, MAP)
        status, tree = await api.request("jane", method, path, MAP)
        assert status == 403
        assert f"cannot {verb} " in tree["message"]
        everything = "get list watch create update patch delete deletecollection".replace(verb, "")
        await api.grant("jane", rule(everything, "configmaps"))
        assert (await api.request("jane", method, path, MAP))[0] == 403
        await api.grant("jane", rule(verb, "configmaps"))
        assert (await api.request("jane", method, path, MAP))[0] != 403


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
async def test_the_watch_permission_allows_no_writes_at_a_deprecated_watch_path(method: str) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", MAPS, MAP)
        await api.grant("jane", rule("get list watch", "configmaps"))
        for path in ("/api/v1/watch/namespaces/default/configmaps", "/api/v1/watch/namespaces/default/configmaps/a"):
            assert (await api.request("jane", method, path, {**MAP, "metadata": {"name": "b"}}))[0] == 403
            assert (await api.request("root", method, path, MAP, groups=["system:masters"]))[0] == 405
        assert len((await api.request_as_owner("GET", MAPS))["items"]) == 1


async def test_a_granted_or_revoked_permission_is_effective_for_the_next_request() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "r", "jane"))
        status, tree = await api.request("jane", "GET", MAPS)
        assert status == 403
        assert tree["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "r" not found')
        await api.request_as_owner("POST", f"{RBAC}/namespaces/default/roles", role("r", rule("list", "configmaps")))
        assert (await api.request("jane", "GET", MAPS))[0] == 200
        await api.request_as_owner("DELETE", f"{RBAC}/namespaces/default/rolebindings/b")
        assert (await api.request("jane", "GET", MAPS))[0] == 403


async def test_stored_roles_are_effective_after_a_restart() -> None:
    storage = MemoryStorage()
    async with open_rbac_server(storage=storage) as api:
        await api.grant("jane", rule("list", "configmaps"))
    async with open_rbac_server(storage=storage) as api:
        assert (await api.request("jane", "GET", MAPS))[0] == 200
        assert (await api.request("jane", "GET", "/api/v1/configmaps"))[0] == 403


async def test_a_request_for_a_namespace_is_authorized_in_that_namespace() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("get", "namespaces"))
        assert (await api.request("jane", "GET", "/api/v1/namespaces/default"))[0] == 200
        assert (await api.request("jane", "GET", "/api/v1/namespaces/kube-system"))[0] == 403
        assert (await api.request("jane", "GET", "/api/v1/namespaces"))[0] == 403


async def test_a_list_that_selects_one_name_is_authorized_by_that_name() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("list", "configmaps", names="a"))
        assert (await api.request("jane", "GET", MAPS, fieldSelector="metadata.name=a"))[0] == 200
        assert (await api.request("jane", "GET", MAPS, fieldSelector="metadata.name=b"))[0] == 403
        assert (await api.request("jane", "GET", MAPS, fieldSelector="metadata.name!=b"))[0] == 403
        assert (await api.request("jane", "GET", MAPS))[0] == 403


async def test_a_service_account_of_the_same_namespace_needs_no_namespace() -> None:
    async with open_rbac_server() as api:
        await api.grant("robot", rule("list", "configmaps"), kind="ServiceAccount")
        assert (await api.request("system:serviceaccount:default:robot", "GET", MAPS))[0] == 200
        assert (await api.request("system:serviceaccount:other:robot", "GET", MAPS))[0] == 403
        assert (await api.request("robot", "GET", MAPS))[0] == 403


async def test_only_users_with_permission_learn_that_a_resource_does_not_exist() -> None:
    async with open_rbac_server() as api:
        assert (await api.request("jane", "GET", "/apis/example.com/v1/namespaces/default/widgets"))[0] == 403
        await api.grant("jane", rule("*", "*", group="example.com"))
        assert (await api.request("jane", "GET", "/apis/example.com/v1/namespaces/default/widgets"))[0] == 404


async def test_a_role_binding_grants_no_non_resource_urls() -> None:
    async with open_rbac_server() as api:
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        await api.request_as_owner("POST", f"{RBAC}/clusterroles", role("paths", paths, cluster=True))
        tree = binding("b", "paths", "jane", ref="ClusterRole")
        await api.request_as_owner("POST", f"{RBAC}/namespaces/default/rolebindings", tree)
        assert (await api.request("jane", "POST", "/levelset/compact"))[0] == 403
        tree = binding("b", "paths", "jane", cluster=True)
        await api.request_as_owner("POST", f"{RBAC}/clusterrolebindings", tree)
        assert (await api.request("jane", "POST", "/levelset/compact"))[0] == 200


async def test_a_decision_names_the_binding_that_allows_it() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", f"{RBAC}/namespaces/default/roles", role("r", rule("get", "pods/log")))
        await api.request_as_owner(
            "POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "r", "team", kind="Group")
        )
        attributes = {"namespace": "default", "verb": "get", "resource": "pods", "subresource": "log"}
        spec = {"user": "jane", "groups": ["team"], "resourceAttributes": attributes}
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        found = await api.request_as_owner("POST", REVIEWS, tree)
        reason = 'RBAC: allowed by RoleBinding "b/default" of Role "r" to Group "team"'
        assert found["status"] == {"allowed": True, "reason": reason}


async def test_a_rules_review_returns_all_rules_of_a_namespace() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("get", "configmaps", names="a"))
        kind = "SelfSubjectRulesReview"
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {"namespace": "default"}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        status, found = await api.request("jane", "POST", path, tree)
        assert status == 201
        assert rule("get", "configmaps", names="a") in found["status"]["resourceRules"]
        assert any("/healthz" in one["nonResourceURLs"] for one in found["status"]["nonResourceRules"])
        assert (await api.request("jane", "POST", path, {**tree, "spec": {}}))[0] == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [("/version", 200), ("/readyz", 200), ("/livez", 200), ("/api", 403), ("/metrics", 403), (MAPS, 403)],
)
async def test_an_anonymous_request_can_read_health_and_nothing_else(path: str, status: int) -> None:
    async with open_rbac_server() as api:
        assert (await api.request(None, "GET", path))[0] == status


async def test_masters_may_do_everything_and_cost_nothing() -> None:
    async with open_rbac_server() as api:
        assert (await api.request("root", "GET", MAPS, groups=["system:masters"]))[0] == 200
        assert api.server.state.rbac is not None
        assert not api.server.state.rbac._grants
