import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.routes import Route, Routes
from levelset.apiserver.wire.request_paths import read_address
from levelset.http import Request

SERVED = next(iter(builtin_kinds()))
PATHS = [
    "/api/v1/namespaces/x/configmaps/a",
    "/api/v1/namespaces/x/pods/a/status",
    "/api/v1/namespaces/x",
    "/api/v1/namespaces/x/status",
    "/api/v1/namespaces/x/finalize",
    "/api/v1/nodes/a",
    "/api/v1/nodes/a/status",
    "/api/v1/namespaces/x/configmaps",
    "/api/v1/watch/namespaces/x/configmaps/a",
    "/apis/apps/v1/namespaces/x/deployments/a",
    "/apis/apps/v1/namespaces/x/deployments/a/scale",
    "/apis/apps/v1/namespaces/x/deployments/a/status",
    "/apis/example.com/v1/namespaces/x/y",
    "/api/v1/namespaces/%78/configmaps/a",
    "/api/v1/namespaces/x/configmaps/a%20b",
    "/api/v1/namespaces/x/configmaps/a/",
    "//api/v1/nodes/a",
]
NAMES = ["a", "b", "status", "finalize", "watch", "namespaces", "scale", "a.b", "configmaps"]


def keep(routes: Routes, path: str, method: str = "GET") -> None:
    address = read_address(Request(method, path).segments)
    if address is not None:
        routes.keep(method, path, Route(address, SERVED, None))


def others(path: str) -> list[str]:
    """The paths with another text in the place of each of the parts, one after the other."""
    parts = path.split("/")
    return ["/".join([*parts[:n], name, *parts[n + 1 :]]) for n in range(1, len(parts)) for name in NAMES]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_found_alike_has_the_address_that_reading_it_gives(path: str) -> None:
    for other in [one for each in PATHS for one in others(each)]:
        routes = Routes()
        keep(routes, path)
        found = routes.find_alike("GET", other)
        if found is not None:
            assert found.address == read_address(Request("GET", other).segments)


@pytest.mark.parametrize("known", [PATHS[0], PATHS[1], PATHS[2], PATHS[3], PATHS[5], PATHS[10]])
def test_another_name_at_a_known_path_is_found(known: str) -> None:
    routes = Routes()
    keep(routes, known)
    address = read_address(Request("GET", known).segments)
    assert address is not None
    before, _, after = known.rpartition(f"/{address.name}")
    found = routes.find_alike("GET", f"{before}/other{after}")
    assert found is not None
    assert found.address.name == "other"
    assert routes.known["GET", f"{before}/other{after}"] is found


@pytest.mark.parametrize("name", ["", ".", "..", "a%2Fb", "x" * 600])
def test_what_may_be_no_name_is_left_to_those_who_read_paths(name: str) -> None:
    routes = Routes()
    keep(routes, "/api/v1/nodes/a")
    assert routes.find_alike("GET", f"/api/v1/nodes/{name}") is None


def test_methods_are_told_apart_and_all_is_forgotten_at_once() -> None:
    routes = Routes()
    keep(routes, "/api/v1/nodes/a", "PUT")
    assert routes.find_alike("GET", "/api/v1/nodes/b") is None
    routes.clear()
    assert routes.find_alike("PUT", "/api/v1/nodes/b") is None
    assert not len(routes)


def test_what_is_remembered_is_bounded() -> None:
    routes = Routes()
    for number in range(5000):
        keep(routes, f"/api/v1/namespaces/n{number}/configmaps/a")
        routes.find_alike("GET", f"/api/v1/namespaces/n{number}/configmaps/b")
    assert len(routes) <= 4096
