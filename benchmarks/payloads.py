"""The objects that are measured: a custom resource of 1.5 KB and a Pod of 6 KB, each different from the next."""

import json

__all__ = ["pod", "website"]


def website(number: int) -> bytes:
    """A custom resource as a cluster holds it: 4 labels, 2 annotations, an owner, a finalizer, spec and status."""
    return json.dumps(
        {
            "apiVersion": "example.dev/v1",
            "kind": "Website",
            "metadata": {
                "name": f"website-{number:07d}",
                "namespace": f"team-{number % 97}",
                "uid": f"6b3f6a52-1d1c-4f8a-9b1e-{number:012d}",
                "resourceVersion": str(100000 + number),
                "generation": 3,
                "creationTimestamp": "2026-01-31T12:00:00Z",
                "labels": {
                    "app.kubernetes.io/name": f"website-{number}",
                    "app.kubernetes.io/managed-by": "levelset",
                    "app.kubernetes.io/part-of": "shop",
                    "tier": "public",
                },
                "annotations": {
                    "example.dev/contact": f"team-{number % 97}@example.dev",
                    "example.dev/note": "do not scale below 3 sites",
                },
                "finalizers": ["example.dev/dns"],
                "ownerReferences": [
                    {
                        "apiVersion": "example.dev/v1",
                        "kind": "Shop",
                        "name": f"shop-{number % 97}",
                        "uid": f"0c9a7f10-93a1-4c55-8f8e-{number % 97:012d}",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "image": f"example.dev/shop/website:{number % 13}.4.2",
                "replicas": number % 5 + 1,
                "certificate": f"website-{number}-tls",
                "ports": [{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}],
                "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "CACHE", "value": "redis.cache.svc:6379"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            },
            "status": {
                "ready": number % 5 + 1,
                "observedGeneration": 3,
                "conditions": [
                    {
                        "type": kind,
                        "status": "True",
                        "reason": "AllGood",
                        "message": "as it should be",
                        "lastTransitionTime": "2026-01-31T12:00:05Z",
                        "observedGeneration": 3,
                    }
                    for kind in ("Ready", "CertificateReady", "Scaled")
                ],
            },
        },
        separators=(",", ":"),
    ).encode()


def pod(number: int) -> bytes:
    """A Pod as a kubelet leaves it: two containers, volumes, conditions, and a third of it managed fields."""
    name = f"web-6d4cf56db6-{number:07d}"
    mount = {"name": "kube-api-access-x7k2p", "readOnly": True, "mountPath": "/var/run/secrets/tokens/serviceaccount"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "generateName": "web-6d4cf56db6-",
                "namespace": f"team-{number % 97}",
                "uid": f"9f1c2a7e-55aa-4b0e-8c11-{number:012d}",
                "resourceVersion": str(200000 + number),
                "creationTimestamp": "2026-01-31T12:00:00Z",
                "labels": {"app": "web", "pod-template-hash": "6d4cf56db6", "tier": "public"},
                "annotations": {"example.dev/config-hash": f"{number:064x}"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "web-6d4cf56db6",
                        "uid": "1d3b5e8c-0b1f-4c8e-a8a1-000000000001",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
                "managedFields": _managed_fields(),
            },
            "spec": {
                "volumes": [
                    {"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                    {"name": "cache", "emptyDir": {}},
                ],
                "containers": [_container("web", number, mount), _container("proxy", number, mount)],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "web",
                "nodeName": f"node-{number % 41}",
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
                "schedulerName": "default-scheduler",
                "tolerations": [
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
                ],
                "priority": 0,
                "enableServiceLinks": True,
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {
                        "type": kind,
                        "status": "True",
                        "lastProbeTime": None,
                        "lastTransitionTime": "2026-01-31T12:00:05Z",
                    }
                    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
                "hostIP": f"10.1.0.{number % 250}",
                "podIP": f"10.2.{number % 250}.{number % 199}",
                "podIPs": [{"ip": f"10.2.{number % 250}.{number % 199}"}],
                "startTime": "2026-01-31T12:00:00Z",
                "containerStatuses": [_container_status("web", number), _container_status("proxy", number)],
                "qosClass": "Burstable",
            },
        },
        separators=(",", ":"),
    ).encode()


def _container(name: str, number: int, mount: dict[str, object]) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    return {
        "name": name,
        "image": f"example.dev/shop/{name}:{number % 13}.4.2",
        "args": ["--listen=:8080", "--log-level=info"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}, mount],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _container_status(name: str, number: int) -> dict[str, object]:
    return {
        "name": name,
        "state": {"running": {"startedAt": "2026-01-31T12:00:04Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"example.dev/shop/{name}:{number % 13}.4.2",
        "imageID": f"example.dev/shop/{name}@sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
        "started": True,
    }


def _managed_fields() -> list[dict[str, object]]:
    leaves = ("f:image", "f:imagePullPolicy", "f:name", "f:terminationMessagePath", "f:terminationMessagePolicy")
    container = {
        ".": {},
        **{leaf: {} for leaf in leaves},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}},
    }
    condition = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    spec = {
        "f:metadata": {
            "f:generateName": {},
            "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}, "f:tier": {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"1d3b5e8c-0b1f-4c8e-a8a1-000000000001"}': {}},
        },
        "f:spec": {
            "f:containers": {'k:{"name":"web"}': container, 'k:{"name":"proxy"}': container},
            **{f"f:{name}": {} for name in ("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName")},
        },
    }
    status = {
        "f:status": {
            "f:conditions": {
                f'k:{{"type":"{kind}"}}': condition for kind in ("ContainersReady", "Initialized", "Ready")
            },
            **{f"f:{name}": {} for name in ("containerStatuses", "hostIP", "phase", "podIP", "startTime")},
        }
    }
    shared = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "time": "2026-01-31T12:00:05Z"}
    return [
        {"manager": "kube-controller-manager", "fieldsV1": spec, **shared},
        {"manager": "kubelet", "fieldsV1": status, "subresource": "status", **shared},
    ]
