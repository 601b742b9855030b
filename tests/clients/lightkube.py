"""lightkube: its typed client, and a watch that resumes after a server restart."""

import threading
from typing import Any

from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Event
from lightkube.types import CascadeType, OnErrorAction, OnErrorResult, PatchType

from tests.clients.verbs import (
    CERTIFICATES,
    GROUP,
    Plain,
    configmap,
    deployment,
    owned,
    restart,
    skip,
    until,
    verb,
    widget,
)

NAMESPACE = "with-lightkube"
Widget = create_namespaced_resource(GROUP, "v1", "Widget", "widgets")


def make(client: Any, kind: Any, tree: dict[str, Any]) -> Any:
    return client.create(kind.from_dict(tree), namespace=NAMESPACE)


def read(client: Any) -> None:
    with verb("create"):
        make(client, ConfigMap, configmap("one", k="1"))
        make(client, Deployment, deployment("web"))
        make(client, Widget, widget("w", color="red"))
    with verb("get"):
        assert client.get(ConfigMap, "one", namespace=NAMESPACE).data == {"k": "1"}
        assert client.get(Widget, "w", namespace=NAMESPACE).spec["color"] == "red"
        try:
            client.get(ConfigMap, "none", namespace=NAMESPACE)
        except ApiError as error:
            assert error.status.reason == "NotFound", error.status
    with verb("list"):
        for number in range(5):
            make(client, ConfigMap, configmap(f"many-{number}"))
        names = {item.metadata.name for item in client.list(ConfigMap, namespace=NAMESPACE, chunk_size=2)}
        assert len(names - {CERTIFICATES}) == 6, names
        assert [item.metadata.name for item in client.list(Deployment, namespace="*", labels={"app": "web"})] == ["web"]
    with verb("watch"):
        timer = threading.Timer(0.2, make, (client, ConfigMap, configmap("watched")))
        timer.start()
        for kind, item in client.watch(ConfigMap, namespace=NAMESPACE, server_timeout=10):
            if item.metadata.name == "watched":
                assert kind == "ADDED", kind
                break
        else:
            raise AssertionError("the watch ended")


def change(client: Any) -> None:
    skip("apply", "lightkube applies server-side only")
    with verb("apply-ssa"):
        wanted = ConfigMap(apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="s", namespace=NAMESPACE))
        wanted.data = {"k": "1"}
        assert client.apply(wanted, field_manager="mine").data == {"k": "1"}
        wanted.data = {"k": "2"}
        try:
            client.apply(wanted, field_manager="other")
        except ApiError as error:
            assert error.status.code == 409, error.status
        else:
            raise AssertionError("no conflict")
        assert client.apply(wanted, field_manager="other", force=True).data == {"k": "2"}
        client.apply(Widget.from_dict(widget("s", color="blue")), namespace=NAMESPACE, field_manager="mine")
    with verb("patch"):
        operations = [{"op": "add", "path": "/data/j", "value": "1"}]
        client.patch(ConfigMap, "one", {"data": {"m": "1"}}, namespace=NAMESPACE, patch_type=PatchType.MERGE)
        client.patch(ConfigMap, "one", {"data": {"s": "1"}}, namespace=NAMESPACE)
        one = client.patch(ConfigMap, "one", operations, namespace=NAMESPACE, patch_type=PatchType.JSON)
        assert one.data.keys() == {"k", "m", "s", "j"}, one.data
        one.data["k"] = "2"
        assert client.replace(one).data["k"] == "2"
    with verb("scale"):
        scale = Deployment.Scale(metadata=ObjectMeta(name="web", namespace=NAMESPACE), spec=ScaleSpec(replicas=3))
        client.replace(scale, "web", namespace=NAMESPACE)
        assert client.get(Deployment, "web", namespace=NAMESPACE).spec.replicas == 3
        assert client.get(Widget.Scale, "w", namespace=NAMESPACE).spec.replicas == 1
    skip("explain", "lightkube has no explain")
    with verb("wait"):
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        merge = {"namespace": NAMESPACE, "patch_type": PatchType.MERGE}
        threading.Timer(0.2, client.patch, (Widget.Status, "w", ready), merge).start()
        client.wait(Widget, "w", for_conditions=["Ready"], namespace=NAMESPACE)
    with verb("events"):
        involved = {"kind": "ConfigMap", "name": "one", "namespace": NAMESPACE, "apiVersion": "v1"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, "reason": "Seen"}
        make(client, Event, event | {"involvedObject": involved, "message": "seen", "type": "Normal"})
        found = list(client.list(Event, namespace=NAMESPACE, fields={"involvedObject.name": "one"}))
        assert [item.reason for item in found] == ["Seen"]


def remove(client: Any, plain: Plain) -> None:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for cascade in (CascadeType.BACKGROUND, CascadeType.FOREGROUND, CascadeType.ORPHAN):
        policy = cascade.value.lower()
        with verb(f"delete-{policy}"):
            owner = plain.must("POST", maps, configmap(f"{policy}-owner"))
            plain.must("POST", maps, owned(configmap(f"{policy}-child"), owner))
            client.delete(ConfigMap, f"{policy}-owner", namespace=NAMESPACE, cascade=cascade)
            plain.wait_gone(f"{maps}/{policy}-owner")
            if cascade is CascadeType.ORPHAN:
                child = client.get(ConfigMap, "orphan-child", namespace=NAMESPACE)
                assert not child.metadata.ownerReferences, child
            else:
                plain.wait_gone(f"{maps}/{policy}-child")
    with verb("delete-all"):
        client.deletecollection(ConfigMap, namespace=NAMESPACE)
        left = client.list(ConfigMap, namespace=NAMESPACE)
        assert {item.metadata.name for item in left} <= {CERTIFICATES}


def survive(client: Any, plain: Plain) -> None:
    def again(error: Exception, count: int) -> OnErrorResult:
        return OnErrorResult(OnErrorAction.RETRY, sleep=0.1)

    def follow() -> None:
        while not done.is_set():
            try:
                for kind, item in client.watch(ConfigMap, namespace=f"{NAMESPACE}-again", on_error=again):
                    seen.append(f"{kind} {item.metadata.name}")
            except Exception:  # noqa: BLE001 - refused while the server is away: lightkube raises that from the send
                done.wait(0.1)

    with verb("restart"):
        path = plain.make_namespace(f"{NAMESPACE}-again") + "/configmaps"
        seen: list[str] = []
        done = threading.Event()
        threading.Thread(target=follow, daemon=True).start()
        plain.must("POST", path, configmap("before"))
        until(lambda: "ADDED before" in seen)
        restart()
        plain.must("POST", path, configmap("after"))
        until(lambda: "ADDED after" in seen)
        done.set()


def main() -> None:
    plain, client = Plain(), Client()
    plain.define()
    plain.make_namespace(NAMESPACE)
    read(client)
    change(client)
    remove(client, plain)
    survive(client, plain)


if __name__ == "__main__":
    main()
