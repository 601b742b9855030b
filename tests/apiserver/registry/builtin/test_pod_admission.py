from typing import Any

from levelset.apiserver.registry.builtin.pod_admission import TOKEN_PATH
from tests.apiserver.support.in_process_server import InProcessServer, open_server

PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod(**spec: Any) -> Any:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def _rejected(api: InProcessServer, tree: Any) -> str:
    status, found = await api.request("POST", PODS, tree)
    assert status == 403, found
    assert found["details"] == {"name": "p", "kind": "pods"}
    return str(found["message"])


async def test_a_pod_gets_the_default_account_and_the_volume_of_its_token() -> None:
    async with open_server(cluster_defaults=True) as api:
        spec = (await api.create(PODS, pod(initContainers=[{"name": "i", "image": "i"}])))["spec"]
        assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
        (volume,) = spec["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
        assert volume["projected"] == {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
        }
        for container in (*spec["containers"], *spec["initContainers"]):
            assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}]


async def test_a_pod_without_cluster_defaults_gets_no_account() -> None:
    async with open_server() as api:
        spec = (await api.create(PODS, pod()))["spec"]
        assert "serviceAccountName" not in spec
        assert "volumes" not in spec


async def test_an_account_that_does_not_exist_is_refused() -> None:
    async with open_server(cluster_defaults=True) as api:
        message = await _rejected(api, pod(serviceAccountName="anne"))
        detail = 'error looking up service account default/anne: serviceaccount "anne" not found'
        assert message == f'pods "p" is forbidden: {detail}'


async def test_a_pod_and_its_account_may_refuse_the_token() -> None:
    async with open_server(cluster_defaults=True) as api:
        await api.create(ACCOUNTS, {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False})
        assert "volumes" not in (await api.create(PODS, pod(automountServiceAccountToken=False)))["spec"]
        other = {**pod(serviceAccountName="quiet"), "metadata": {"name": "q"}}
        assert "volumes" not in (await api.create(PODS, other))["spec"]


async def test_a_container_that_mounts_something_at_the_path_of_the_token_keeps_it() -> None:
    async with open_server(cluster_defaults=True) as api:
        mount = {"name": "own", "mountPath": TOKEN_PATH}
        tree = pod(volumes=[{"name": "own", "emptyDir": {}}])
        tree["spec"]["containers"][0]["volumeMounts"] = [mount]
        spec = (await api.create(PODS, tree))["spec"]
        assert spec["containers"][0]["volumeMounts"] == [mount]
        assert [one["name"] for one in spec["volumes"]] == ["own"]


async def test_the_pull_secrets_of_the_account_are_those_of_a_pod_without_any() -> None:
    async with open_server(cluster_defaults=True) as api:
        await api.create(ACCOUNTS, {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "s"}]})
        spec = (await api.create(PODS, pod(serviceAccountName="puller")))["spec"]
        assert spec["imagePullSecrets"] == [{"name": "s"}]


async def test_an_account_with_mountable_secrets_refuses_others() -> None:
    async with open_server(cluster_defaults=True) as api:
        annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
        account = {"metadata": {"name": "strict", "annotations": annotations}, "secrets": [{"name": "a"}]}
        await api.create(ACCOUNTS, account)
        tree = pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "b"}}])
        assert 'volume with secret.secretName="b" is not allowed' in await _rejected(api, tree)
        tree["spec"]["volumes"][0]["secret"]["secretName"] = "a"
        await api.create(PODS, tree)


async def test_a_priority_class_that_is_the_global_default_is_given_to_pods_without_one() -> None:
    async with open_server() as api:
        await api.create(CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
        spec = (await api.create(PODS, pod()))["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)
        await api.request("DELETE", f"{CLASSES}/usual")
        later = (await api.create(PODS, {**pod(), "metadata": {"name": "q"}}))["spec"]
        assert ("priorityClassName" in later, later["priority"]) == (False, 0)


async def test_a_class_that_never_preempts_is_resolved() -> None:
    async with open_server() as api:
        await api.create(CLASSES, {"metadata": {"name": "calm"}, "value": 3, "preemptionPolicy": "Never"})
        spec = (await api.create(PODS, pod(priorityClassName="calm")))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (3, "Never")
