from typing import Any

import pytest

from levelset.apiserver.registry.builtin.defaults import DEFAULTERS


@pytest.mark.parametrize(
    ("kind", "tree", "expected"),
    [
        (("storage.k8s.io", "StorageClass"), {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        (("scheduling.k8s.io", "PriorityClass"), {}, {"preemptionPolicy": "PreemptLowerPriority", "value": 0}),
        (
            ("", "PersistentVolume"),
            {"spec": {}},
            {"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}},
        ),
        (
            ("networking.k8s.io", "NetworkPolicy"),
            {"spec": {"egress": [{"ports": [{"port": 53}]}]}},
            {
                "spec": {
                    "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                    "podSelector": {},
                    "policyTypes": ["Ingress", "Egress"],
                }
            },
        ),
        (
            ("rbac.authorization.k8s.io", "RoleBinding"),
            {"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]},
            {
                "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount"}],
            },
        ),
        (("flowcontrol.apiserver.k8s.io", "FlowSchema"), {}, {"spec": {"matchingPrecedence": 1000}}),
        (
            ("discovery.k8s.io", "EndpointSlice"),
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1, "name": "", "protocol": "TCP"}]},
        ),
    ],
)
def test_missing_fields_get_defaults(kind: tuple[str, str], tree: dict[str, Any], expected: dict[str, Any]) -> None:
    DEFAULTERS[kind](tree)
    assert tree == expected


def test_a_webhook_gets_defaults() -> None:
    hook: dict[str, Any] = {"rules": [{}], "clientConfig": {"service": {}}}
    DEFAULTERS["admissionregistration.k8s.io", "MutatingWebhookConfiguration"]({"webhooks": [hook]})
    assert hook == {
        "rules": [{"scope": "*"}],
        "clientConfig": {"service": {"port": 443}},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
        "namespaceSelector": {},
        "objectSelector": {},
    }


@pytest.mark.parametrize("kind", sorted(DEFAULTERS))
def test_defaulting_is_idempotent(kind: tuple[str, str]) -> None:
    first: dict[str, Any] = {"apiVersion": "autoscaling/v2", "metadata": {"name": "a"}}
    DEFAULTERS[kind](first)
    second = {**first}
    DEFAULTERS[kind](second)
    assert second == first
