"""kubernetes, the official Python client: its generated API for built-in kinds, its dynamic client for others."""

import threading
from typing import Any

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

from tests.clients.verbs import CERTIFICATES, GROUP, OURS, Plain, configmap, deployment, owned, skip, verb, widget

NAMESPACE = "with-kubernetes"


def read(core: Any, apps: Any, widgets: Any) -> None:
    with verb("create"):
        core.create_namespaced_config_map(NAMESPACE, configmap("one", k="1"))
        apps.create_namespaced_deployment(NAMESPACE, deployment("web"))
        widgets.create(widget("w", color="red"), namespace=NAMESPACE)
        utils.create_from_dict(core.api_client, configmap("from-dict"), namespace=NAMESPACE)
    with verb("get"):
        assert core.read_namespaced_config_map("one", NAMESPACE).data == {"k": "1"}
        assert widgets.get(name="w", namespace=NAMESPACE).spec.color == "red"
        try:
            core.read_namespaced_config_map("none", NAMESPACE)
        except ApiException as error:
            assert error.status == 404, error
    with verb("list"):
        query = {"limit": 1, "field_selector": OURS}
        page = core.list_namespaced_config_map(NAMESPACE, **query)
        rest = core.list_namespaced_config_map(NAMESPACE, **query, _continue=page.metadata._continue)
        names = [item.metadata.name for item in [*page.items, *rest.items]]
        assert names == ["from-dict", "one"], names
        assert len(apps.list_deployment_for_all_namespaces(label_selector="app=web").items) == 1
        assert len(widgets.get(namespace=NAMESPACE).items) == 1
    with verb("watch"):
        make = (core.create_namespaced_config_map, (NAMESPACE, configmap("watched")))
        threading.Timer(0.2, *make).start()
        watcher = watch.Watch()
        seen = []
        query = {"timeout_seconds": 10, "field_selector": OURS}
        for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, **query):
            seen.append(f"{event['type']} {event['object'].metadata.name}")
            if "watched" in seen[-1]:
                watcher.stop()
        assert seen == ["ADDED from-dict", "ADDED one", "ADDED watched"], seen


def change(core: Any, apps: Any, widgets: Any) -> None:
    skip("apply", "the Python client has no client-side apply")
    with verb("apply-ssa"):
        widgets.server_side_apply(widget("s", color="red"), namespace=NAMESPACE, field_manager="mine")
        try:
            widgets.server_side_apply(widget("s", color="blue"), namespace=NAMESPACE, field_manager="other")
        except dynamic.exceptions.ConflictError as error:
            assert error.status == 409, error
        else:
            raise AssertionError("no conflict")
        forced = {"namespace": NAMESPACE, "field_manager": "other", "force_conflicts": True}
        assert widgets.server_side_apply(widget("s", color="blue"), **forced).spec.color == "blue"
    with verb("patch"):
        core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"s": "1"}})
        operations = [{"op": "add", "path": "/data/j", "value": "1"}]
        one = core.patch_namespaced_config_map("one", NAMESPACE, operations)
        assert one.data.keys() == {"k", "s", "j"}, one.data
        merge = {"namespace": NAMESPACE, "content_type": "application/merge-patch+json"}
        assert widgets.patch(widget("w", color="green"), **merge).spec.color == "green"
        one.data["k"] = "2"
        assert core.replace_namespaced_config_map("one", NAMESPACE, one).data["k"] == "2"
    with verb("scale"):
        scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
        assert scale.spec.replicas == 3
        scale.spec.replicas = 2
        apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale)
        assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 2
    skip("explain", "the Python client has no explain")
    skip("wait", "the Python client has no wait")
    with verb("events"):
        involved = client.V1ObjectReference(kind="ConfigMap", name="one", namespace=NAMESPACE, api_version="v1")
        meta = client.V1ObjectMeta(generate_name="e-")
        event = client.CoreV1Event(
            metadata=meta, involved_object=involved, reason="Seen", message="seen", type="Normal"
        )
        core.create_namespaced_event(NAMESPACE, event)
        found = core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=one").items
        assert [item.reason for item in found] == ["Seen"]


def remove(core: Any, plain: Plain) -> None:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for policy in ("Background", "Foreground", "Orphan"):
        with verb(f"delete-{policy.lower()}"):
            name = policy.lower()
            owner = plain.must("POST", maps, configmap(f"{name}-owner"))
            plain.must("POST", maps, owned(configmap(f"{name}-child"), owner))
            core.delete_namespaced_config_map(f"{name}-owner", NAMESPACE, propagation_policy=policy)
            plain.wait_gone(f"{maps}/{name}-owner")
            if policy == "Orphan":
                child = core.read_namespaced_config_map("orphan-child", NAMESPACE)
                assert not child.metadata.owner_references, child
            else:
                plain.wait_gone(f"{maps}/{name}-child")
    with verb("delete-all"):
        core.delete_collection_namespaced_config_map(NAMESPACE)
        left = core.list_namespaced_config_map(NAMESPACE).items
        assert {item.metadata.name for item in left} <= {CERTIFICATES}


def main() -> None:
    plain = Plain()
    plain.define()
    plain.make_namespace(NAMESPACE)
    config.load_kube_config()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    widgets = dynamic.DynamicClient(core.api_client).resources.get(api_version=f"{GROUP}/v1", kind="Widget")
    read(core, apps, widgets)
    change(core, apps, widgets)
    remove(core, plain)


if __name__ == "__main__":
    main()
