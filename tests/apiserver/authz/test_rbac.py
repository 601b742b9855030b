import pytest

from levelset.storage import MemoryStorage
from tests.apiserver.roles import RBAC, binding, open_town, role, rule

MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_nobody_may_do_anything_that_no_rule_allows() -> None:
    async with open_town() as town:
        status, tree = await town.ask("jane", "GET", MAPS)
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
async def test_every_way_in_has_its_verb(method: str, path: str, verb: str) -> None:
    async with open_town() as town:
        await town.own("POST", MAPS, MAP)
        status, tree = await town.ask("jane", method, path, MAP)
        assert status == 403
        assert f"cannot {verb} " in tree["message"]
        everything = "get list watch create update patch delete deletecollection".replace(verb, "")
        await town.allow("jane", rule(everything, "configmaps"))
        assert (await town.ask("jane", method, path, MAP))[0] == 403
        await town.allow("jane", rule(verb, "configmaps"))
        assert (await town.ask("jane", method, path, MAP))[0] != 403


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
async def test_who_may_watch_changes_nothing_at_an_old_watch_path(method: str) -> None:
    async with open_town() as town:
        await town.own("POST", MAPS, MAP)
        await town.allow("jane", rule("get list watch", "configmaps"))
        for path in ("/api/v1/watch/namespaces/default/configmaps", "/api/v1/watch/namespaces/default/configmaps/a"):
            assert (await town.ask("jane", method, path, {**MAP, "metadata": {"name": "b"}}))[0] == 403
            assert (await town.ask("root", method, path, MAP, groups=["system:masters"]))[0] == 405
        assert len((await town.own("GET", MAPS))["items"]) == 1


async def test_a_right_comes_and_goes_with_the_very_next_request() -> None:
    async with open_town() as town:
        await town.own("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "r", "jane"))
        status, tree = await town.ask("jane", "GET", MAPS)
        assert status == 403
        assert tree["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "r" not found')
        await town.own("POST", f"{RBAC}/namespaces/default/roles", role("r", rule("list", "configmaps")))
        assert (await town.ask("jane", "GET", MAPS))[0] == 200
        await town.own("DELETE", f"{RBAC}/namespaces/default/rolebindings/b")
        assert (await town.ask("jane", "GET", MAPS))[0] == 403


async def test_what_was_stored_counts_after_a_restart() -> None:
    storage = MemoryStorage()
    async with open_town(storage=storage) as town:
        await town.allow("jane", rule("list", "configmaps"))
    async with open_town(storage=storage) as town:
        assert (await town.ask("jane", "GET", MAPS))[0] == 200
        assert (await town.ask("jane", "GET", "/api/v1/configmaps"))[0] == 403


async def test_a_namespace_is_in_itself() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("get", "namespaces"))
        assert (await town.ask("jane", "GET", "/api/v1/namespaces/default"))[0] == 200
        assert (await town.ask("jane", "GET", "/api/v1/namespaces/kube-system"))[0] == 403
        assert (await town.ask("jane", "GET", "/api/v1/namespaces"))[0] == 403


async def test_a_list_of_one_name_is_about_that_object() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("list", "configmaps", names="a"))
        assert (await town.ask("jane", "GET", MAPS, fieldSelector="metadata.name=a"))[0] == 200
        assert (await town.ask("jane", "GET", MAPS, fieldSelector="metadata.name=b"))[0] == 403
        assert (await town.ask("jane", "GET", MAPS, fieldSelector="metadata.name!=b"))[0] == 403
        assert (await town.ask("jane", "GET", MAPS))[0] == 403


async def test_a_service_account_of_the_same_namespace_needs_no_namespace() -> None:
    async with open_town() as town:
        await town.allow("robot", rule("list", "configmaps"), kind="ServiceAccount")
        assert (await town.ask("system:serviceaccount:default:robot", "GET", MAPS))[0] == 200
        assert (await town.ask("system:serviceaccount:other:robot", "GET", MAPS))[0] == 403
        assert (await town.ask("robot", "GET", MAPS))[0] == 403


async def test_what_does_not_exist_is_no_secret_to_those_only_who_may_ask() -> None:
    async with open_town() as town:
        assert (await town.ask("jane", "GET", "/apis/example.com/v1/namespaces/default/widgets"))[0] == 403
        await town.allow("jane", rule("*", "*", group="example.com"))
        assert (await town.ask("jane", "GET", "/apis/example.com/v1/namespaces/default/widgets"))[0] == 404


async def test_a_binding_in_a_namespace_gives_no_paths() -> None:
    async with open_town() as town:
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        await town.own("POST", f"{RBAC}/clusterroles", role("paths", paths, cluster=True))
        tree = binding("b", "paths", "jane", ref="ClusterRole")
        await town.own("POST", f"{RBAC}/namespaces/default/rolebindings", tree)
        assert (await town.ask("jane", "POST", "/levelset/compact"))[0] == 403
        tree = binding("b", "paths", "jane", cluster=True)
        await town.own("POST", f"{RBAC}/clusterrolebindings", tree)
        assert (await town.ask("jane", "POST", "/levelset/compact"))[0] == 200


async def test_a_decision_names_the_binding_that_allows_it() -> None:
    async with open_town() as town:
        await town.own("POST", f"{RBAC}/namespaces/default/roles", role("r", rule("get", "pods/log")))
        await town.own("POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "r", "team", kind="Group"))
        asked = {"namespace": "default", "verb": "get", "resource": "pods", "subresource": "log"}
        spec = {"user": "jane", "groups": ["team"], "resourceAttributes": asked}
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        found = await town.own("POST", REVIEWS, tree)
        reason = 'RBAC: allowed by RoleBinding "b/default" of Role "r" to Group "team"'
        assert found["status"] == {"allowed": True, "reason": reason}


async def test_a_user_is_told_all_rules_that_apply_in_a_namespace() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("get", "configmaps", names="a"))
        kind = "SelfSubjectRulesReview"
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {"namespace": "default"}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        status, found = await town.ask("jane", "POST", path, tree)
        assert status == 201
        assert rule("get", "configmaps", names="a") in found["status"]["resourceRules"]
        assert any("/healthz" in one["nonResourceURLs"] for one in found["status"]["nonResourceRules"])
        assert (await town.ask("jane", "POST", path, {**tree, "spec": {}}))[0] == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [("/version", 200), ("/readyz", 200), ("/livez", 200), ("/api", 403), ("/metrics", 403), (MAPS, 403)],
)
async def test_somebody_without_credentials_sees_the_health_and_nothing_else(path: str, status: int) -> None:
    async with open_town() as town:
        assert (await town.ask(None, "GET", path))[0] == status


async def test_masters_may_do_everything_and_cost_nothing() -> None:
    async with open_town() as town:
        assert (await town.ask("root", "GET", MAPS, groups=["system:masters"]))[0] == 200
        assert town.server.world.rbac is not None
        assert not town.server.world.rbac._grants
