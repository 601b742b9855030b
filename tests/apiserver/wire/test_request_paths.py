import pytest

from levelset.apiserver.wire.request_paths import RequestPath, parse_request_path
from levelset.errors import BadRequest
from levelset.http import Request


def read(path: str) -> RequestPath | None:
    return parse_request_path(Request("GET", path).segments)


def test_a_core_path_names_version_namespace_resource_and_object() -> None:
    assert read("/api/v1/namespaces/x/configmaps/a") == RequestPath("", "v1", "configmaps", "x", "a")


def test_a_group_path_names_the_group() -> None:
    assert read("/apis/apps/v1/deployments") == RequestPath("apps", "v1", "deployments")


def test_a_subresource_follows_the_name() -> None:
    assert read("/apis/apps/v1/namespaces/x/deployments/a/scale") == RequestPath(
        "apps", "v1", "deployments", "x", "a", "scale"
    )


def test_a_namespace_path_names_the_namespace_object() -> None:
    assert read("/api/v1/namespaces/x") == RequestPath("", "v1", "namespaces", None, "x")


@pytest.mark.parametrize("part", ["status", "finalize"])
def test_the_subresources_of_a_namespace_are_not_resources_in_it(part: str) -> None:
    assert read(f"/api/v1/namespaces/x/{part}") == RequestPath("", "v1", "namespaces", None, "x", part)


def test_deprecated_watch_paths_are_recognized() -> None:
    assert read("/api/v1/watch/namespaces/x/configmaps/a") == RequestPath("", "v1", "configmaps", "x", "a", watch=True)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/api/v1/a/b/c/d",
        "/api/v1//a",
        "/api/v1/namespaces//configmaps",
        "/api/v1/namespaces//configmaps/a",
    ],
)
def test_other_paths_are_not_resource_paths(path: str) -> None:
    assert read(path) is None


@pytest.mark.parametrize("name", ["%2E%2E", "%2E", "a%2Fb", "a%25b"])
def test_an_invalid_name_is_a_bad_request(name: str) -> None:
    with pytest.raises(BadRequest):
        read(f"/api/v1/namespaces/x/configmaps/{name}")
