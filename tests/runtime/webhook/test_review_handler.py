import json
from typing import Any

import pytest

from levelset import Denied
from levelset.errors import ConfigError
from levelset.http import Headers, Request
from levelset.runtime.webhook import ReviewHandler, defaults, validates
from levelset.testing.virtual_time import virtual
from tests.runtime.webhook.site_kinds import Site, patched, request, site, versions

PATH = "/validate/check.sites.example.dev"


def check(one: Site) -> None:
    if one.spec.replicas < 1:
        raise Denied("too few")


def latest(one: Site) -> Site:
    return one.with_spec(image="nginx:latest")


def review(reviewed: Any, *, kind: str = "AdmissionReview", version: str = "admission.k8s.io/v1") -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "request": reviewed}).encode()


async def send(
    body: bytes, path: str = PATH, *, method: str = "POST", media: str = "application/json", query: str = ""
) -> tuple[int, Any]:
    answers = ReviewHandler([validates(Site, check), defaults(Site, latest)], versions())
    response = await answers.handle(Request(method, path, query, Headers({"content-type": media}), body))
    assert isinstance(response.body, bytes)
    return response.status, json.loads(response.body)


async def test_a_review_is_answered_with_a_review() -> None:
    status, answer = await send(review(request(site(replicas=0))))
    assert status == 200
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == ("u-1", False)
    assert sorted(answer) == ["apiVersion", "kind", "response"]


async def test_mutating_hooks_have_their_own_path() -> None:
    _, answer = await send(review(request(site())), "/default/latest.sites.example.dev")
    assert patched(site(), answer["response"])["spec"]["image"] == "nginx:latest"


def without(name: str) -> dict[str, Any]:
    return {word: value for word, value in request(site()).items() if word != name}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty"),
        (b"  ", "the body is empty"),
        (b"{", "the body is not an AdmissionReview: this is no JSON"),
        (b"[]", "this endpoint accepts admission.k8s.io/v1 AdmissionReview"),
        (b"[" * 20000, "the body is not an AdmissionReview"),
        (review({}, version="admission.k8s.io/v1beta1"), "the body is admission.k8s.io/v1beta1 AdmissionReview"),
        (review({}, kind="Pod"), "the body is admission.k8s.io/v1 Pod"),
        (review(None), "the AdmissionReview has no request"),
        (review(without("uid")), "request.uid must be a text, not None"),
        (review({**request(site()), "uid": ""}), "request.uid is empty"),
        (review(request(site(), operation="PATCH")), "request.operation is 'PATCH'"),
        (review(without("resource")), "request.resource must be a map"),
        (review({**request(site()), "object": [1]}), "request.object must be a map, not a list"),
        (review({**request(site()), "name": 3}), "request.name must be a text, not 3"),
        (review(request(None)), "request.object is missing; a CREATE must have it"),
        (review(request(site(), operation="DELETE")), "request.oldObject is missing"),
        (review({**request(site()), "resource": {"resource": "pods"}}), "check.sites.example.dev is for sites"),
    ],
)
async def test_an_invalid_review_is_400_with_an_explanation(body: bytes, message: str) -> None:
    status, answer = await send(body)
    assert (status, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")
    assert answer["message"].startswith(message) or message in answer["message"]


async def test_wrong_methods_media_types_sizes_and_paths_have_their_own_codes() -> None:
    assert (await send(b"", method="GET"))[0] == 405
    assert (await send(b"a: b", media="application/yaml"))[0] == 415
    assert (await send(b" " * 8 * 1024 * 1024 + b"{}"))[0] == 413
    assert (await send(b"", "/validate/other"))[0] == 404


async def test_the_media_type_may_have_parameters() -> None:
    assert (await send(review(request(site())), media="application/json; charset=utf-8"))[0] == 200


@virtual
async def test_the_timeout_of_the_server_counts_if_it_is_shorter() -> None:
    async def slow(_: Site) -> None:
        import asyncio  # noqa: PLC0415 - the only one that waits

        await asyncio.sleep(60)

    answers = ReviewHandler([validates(Site, slow, name="check.sites.example.dev")])
    headers = Headers({"content-type": "application/json"})
    for timeout, seconds in (("2s", "2"), ("1m0s", "10"), ("nonsense", "10")):
        reviewed = Request("POST", PATH, f"timeout={timeout}", headers, review(request(site())))
        response = await answers.handle(reviewed)
        assert isinstance(response.body, bytes)
        assert f"within {seconds} seconds" in json.loads(response.body)["response"]["status"]["message"]


def test_two_hooks_with_one_name_raise_a_config_error() -> None:
    with pytest.raises(ConfigError, match="two webhooks are named check"):
        ReviewHandler([validates(Site, check), validates(Site, check)])


def conversion(*objects: Any, wanted: Any = "example.dev/v1") -> bytes:
    reviewed = {"uid": "c-1", "desiredAPIVersion": wanted, "objects": list(objects)}
    return review(reviewed, kind="ConversionReview", version="apiextensions.k8s.io/v1")


async def test_objects_are_converted_in_their_order() -> None:
    status, answer = await send(conversion(site("b", image="x"), site("a")), "/convert")
    response = answer["response"]
    assert (status, answer["kind"], response["uid"]) == (200, "ConversionReview", "c-1")
    assert response["result"] == {"status": "Success"}
    assert [one["metadata"]["name"] for one in response["convertedObjects"]] == ["b", "a"]
    assert response["convertedObjects"][0]["spec"] == {"container": "x"}


async def test_one_object_that_cannot_be_converted_fails_the_whole_review_and_is_named() -> None:
    status, answer = await send(conversion(site("a"), site("b", replicas="many")), "/convert")
    response = answer["response"]
    assert (status, response["uid"], response["convertedObjects"]) == (200, "c-1", [])
    assert response["result"]["status"] == "Failure"
    assert "Site/default/b (objects[1]) cannot be converted to example.dev/v1" in response["result"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (conversion(wanted=None), "request.desiredAPIVersion must be a text"),
        (conversion(3), "request.objects[0] is not an object"),
        (conversion({"metadata": {}}), "request.objects[0].apiVersion is missing"),
        (review({"uid": "c"}, kind="ConversionReview"), "this endpoint accepts apiextensions.k8s.io/v1"),
    ],
)
async def test_an_invalid_conversion_review_is_400(body: bytes, message: str) -> None:
    status, answer = await send(body, "/convert")
    assert (status, message in answer["message"]) == (400, True)


async def test_without_conversions_the_path_does_not_exist() -> None:
    answers = ReviewHandler([validates(Site, check)])
    assert answers.paths == (PATH,)
    assert (await answers.handle(Request("POST", "/convert"))).status == 404
