import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.schema import builtin_resources
from levelset.patch import ANYTHING

GENERIC = {
    "": "configmaps events namespaces resourcequotas secrets serviceaccounts",
    "admissionregistration.k8s.io": "validatingwebhookconfigurations mutatingwebhookconfigurations "
    "validatingadmissionpolicies validatingadmissionpolicybindings "
    "mutatingadmissionpolicies mutatingadmissionpolicybindings",
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apiregistration.k8s.io": "apiservices",
    "authentication.k8s.io": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io": "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews "
    "subjectaccessreviews",
    "certificates.k8s.io": "certificatesigningrequests",
    "coordination.k8s.io": "leases",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "rbac.authorization.k8s.io": "clusterroles clusterrolebindings roles rolebindings",
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog(builtin_kinds())


def test_all_kinds_of_a_generic_control_plane_are_served(catalog: Catalog) -> None:
    wanted = [(group, plural) for group, text in GENERIC.items() for plural in text.split()]
    assert len(wanted) == 29
    assert [one for one in wanted if catalog.find(one[0], "v1", one[1]) is None] == []


@pytest.mark.parametrize(
    "path",
    [
        *(("", "v1", name) for name in ("pods", "services", "endpoints", "nodes", "persistentvolumes")),
        *(("apps", "v1", name) for name in ("deployments", "replicasets", "statefulsets", "daemonsets")),
        *(("batch", "v1", name) for name in ("jobs", "cronjobs")),
        *(("autoscaling", version, "horizontalpodautoscalers") for version in ("v1", "v2")),
        *(("networking.k8s.io", "v1", name) for name in ("ingresses", "networkpolicies")),
        ("", "v1", "persistentvolumeclaims"),
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("policy", "v1", "poddisruptionbudgets"),
        ("storage.k8s.io", "v1", "storageclasses"),
        ("scheduling.k8s.io", "v1", "priorityclasses"),
    ],
)
def test_workload_kinds_are_served(catalog: Catalog, path: tuple[str, str, str]) -> None:
    assert catalog.find(*path) is not None


def test_names_scope_and_verbs_agree_with_kubernetes(catalog: Catalog) -> None:
    for served in catalog.all():
        known = builtin_resources(served.group, served.version)[served.plural]
        assert (served.kind, served.namespaced) == (known.kind, known.namespaced)
        assert sorted(served.verbs) == sorted(known.verbs)
        assert served.status == ("status" in known.subresources)
        assert (served.scale is not None) == ("scale" in known.subresources)
        assert set(served.subresources) <= set(known.subresources)


def test_every_kind_has_a_schema_and_a_shape(catalog: Catalog) -> None:
    for served in catalog.all():
        assert served.schema() is not None
        assert served.shape() is not ANYTHING
        assert served.columns or "list" not in served.verbs


def test_short_names_and_categories_are_those_of_kubernetes(catalog: Catalog) -> None:
    short = {name: served.plural for served in catalog.all() for name in served.short_names}
    assert (short["cm"], short["deploy"], short["po"], short["crd"]) == (
        "configmaps",
        "deployments",
        "pods",
        "customresourcedefinitions",
    )
    everything = {served.plural for served in catalog.all() if "all" in served.categories}
    assert {"pods", "services", "deployments", "jobs"} <= everything
    assert "configmaps" not in everything
