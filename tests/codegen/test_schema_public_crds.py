"""CRDs of well-known projects, to classes and back: the schemas have all fields and types."""

import pytest

from levelset.apiserver.schema import check_structural
from levelset.codegen.breaking_changes import compare_definitions, compare_schemas
from levelset.codegen.schema import schema_of
from levelset.objects import Object
from tests.codegen.public_crds import NAMES, document, modules

LARGE = [
    "applications.argoproj.io",
    "certificates.cert-manager.io",
    "clusters.cluster.x-k8s.io",
    "httproutes.gateway.networking.k8s.io",
    "middlewares.traefik.io",
    "virtualservices.networking.istio.io",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_unchanged_crd_has_no_findings(name):
    assert compare_definitions(document(name), document(name)) == []


@pytest.mark.parametrize("name", LARGE)
def test_the_class_of_a_crd_has_a_schema_with_all_fields_and_types(name):
    released = {one["name"]: one["schema"]["openAPIV3Schema"] for one in document(name)["spec"]["versions"]}
    for version, module in modules(name).items():
        kinds = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Object)]
        (kind,) = [one for one in kinds if one.__module__ == module.__name__]
        made = schema_of(kind)
        assert check_structural(made, version, status=kind.__definition__.status) == []
        changes = compare_schemas(released[version], made)
        lost = [one for one in changes if one.problem == "it was removed" or one.problem.startswith("its type was")]
        assert lost == []
