import json
from typing import Any

import pytest

from levelset import ConfigError, Denied
from levelset.http import Headers, Request
from levelset.runtime.webhook import Answers, defaults, validates
from tests.apiserver.clock import virtual
from tests.runtime.webhook.sites import Site, patched, request, site, versions

PATH = "/validate/check.sites.example.dev"


def check(one: Site) -> None:
    if one.spec.replicas < 1:
        raise Denied("too few")


def latest(one: Site) -> Site:
    return one.with_spec(image="nginx:latest")


def review(asked: Any, *, kind: str = "AdmissionReview", version: str = "admission.k8s.io/v1") -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "request": asked}).encode()


async def ask(
    body: bytes, path: str = PATH, *, method: str = "POST", media: str = "application/json", query: str = ""
) -> tuple[int, Any]:
    answers = Answers([validates(Site, check), defaults(Site, latest)], versions())
    response = await answers.handle(Request(method, path, query, Headers({"content-type": media}), body))
    assert isinstance(response.body, bytes)
    return response.status, json.loads(response.body)


async def test_a_review_is_answered_with_a_review() -> None:
    status, answer = await ask(review(request(site(replicas=0))))
    assert status == 200
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == ("u-1", False)
    assert sorted(answer) == ["apiVersion", "kind", "response"]


async def test_defaults_are_at_a_path_of_their_own() -> None:
    _, answer = await ask(review(request(site())), "/default/latest.sites.example.dev")
    assert patched(site(), answer["response"])["spec"]["image"] == "nginx:latest"


def without(name: str) -> dict[str, Any]:
    return {word: value for word, value in request(site()).items() if word != name}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the body is empty"),
        (b"  ", "the body is empty"),
        (b"{", "the body is no AdmissionReview: this is no JSON"),
        (b"[]", "this endpoint answers admission.k8s.io/v1 AdmissionReview"),
        (b"[" * 20000, "the body is no AdmissionReview"),
        (review({}, version="admission.k8s.io/v1beta1"), "the body is admission.k8s.io/v1beta1 AdmissionReview"),
        (review({}, kind="Pod"), "the body is admission.k8s.io/v1 Pod"),
        (review(None), "the AdmissionReview has no request"),
        (review(without("uid")), "request.uid must be a text, not None"),
        (review({**request(site()), "uid": ""}), "request.uid is empty"),
        (review(request(site(), operation="PATCH")), "request.operation is 'PATCH'"),
        (review(without("resource")), "request.resource must be a map"),
        (review({**request(site()), "object": [1]}), "request.object must be a map, not a list"),
        (review({**request(site()), "name": 3}), "request.name must be a text, not 3"),
        (review(request(None)), "request.object is missing; a CREATE shows the object there"),
        (review(request(site(), operation="DELETE")), "request.oldObject is missing"),
        (review({**request(site()), "resource": {"resource": "pods"}}), "check.sites.example.dev is for sites"),
    ],
)
async def test_what_is_no_review_is_400_with_words(body: bytes, told: str) -> None:
    status, answer = await ask(body)
    assert (status, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")
    assert answer["message"].startswith(told) or told in answer["message"]


async def test_other_methods_forms_sizes_and_places_have_their_own_codes() -> None:
    assert (await ask(b"", method="GET"))[0] == 405
    assert (await ask(b"a: b", media="application/yaml"))[0] == 415
    assert (await ask(b" " * 8 * 1024 * 1024 + b"{}"))[0] == 413
    assert (await ask(b"", "/validate/other"))[0] == 404


async def test_the_media_type_may_have_parameters() -> None:
    assert (await ask(review(request(site())), media="application/json; charset=utf-8"))[0] == 200


@virtual
async def test_the_server_may_give_up_earlier_than_the_hook_says() -> None:
    async def slow(_: Site) -> None:
        import asyncio  # noqa: PLC0415 - the only one that waits

        await asyncio.sleep(60)

    answers = Answers([validates(Site, slow, name="check.sites.example.dev")])
    headers = Headers({"content-type": "application/json"})
    for timeout, seconds in (("2s", "2"), ("1m0s", "10"), ("nonsense", "10")):
        asked = Request("POST", PATH, f"timeout={timeout}", headers, review(request(site())))
        response = await answers.handle(asked)
        assert isinstance(response.body, bytes)
        assert f"within {seconds} seconds" in json.loads(response.body)["response"]["status"]["message"]


def test_two_hooks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two webhooks are called check"):
        Answers([validates(Site, check), validates(Site, check)])


def conversion(*objects: Any, wanted: Any = "example.dev/v1") -> bytes:
    asked = {"uid": "c-1", "desiredAPIVersion": wanted, "objects": list(objects)}
    return review(asked, kind="ConversionReview", version="apiextensions.k8s.io/v1")


async def test_objects_are_converted_in_their_order() -> None:
    status, answer = await ask(conversion(site("b", image="x"), site("a")), "/convert")
    response = answer["response"]
    assert (status, answer["kind"], response["uid"]) == (200, "ConversionReview", "c-1")
    assert response["result"] == {"status": "Success"}
    assert [one["metadata"]["name"] for one in response["convertedObjects"]] == ["b", "a"]
    assert response["convertedObjects"][0]["spec"] == {"container": "x"}


async def test_one_object_that_cannot_be_converted_fails_them_all_and_is_named() -> None:
    status, answer = await ask(conversion(site("a"), site("b", replicas="many")), "/convert")
    response = answer["response"]
    assert (status, response["uid"], response["convertedObjects"]) == (200, "c-1", [])
    assert response["result"]["status"] == "Failure"
    assert "Site/default/b (objects[1]) cannot become example.dev/v1" in response["result"]["message"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (conversion(wanted=None), "request.desiredAPIVersion must be a text"),
        (conversion(3), "request.objects[0] is no object"),
        (conversion({"metadata": {}}), "request.objects[0].apiVersion is missing"),
        (review({"uid": "c"}, kind="ConversionReview"), "this endpoint answers apiextensions.k8s.io/v1"),
    ],
)
async def test_what_is_no_conversion_is_400(body: bytes, told: str) -> None:
    status, answer = await ask(body, "/convert")
    assert (status, told in answer["message"]) == (400, True)


async def test_without_conversions_there_is_no_such_path() -> None:
    answers = Answers([validates(Site, check)])
    assert answers.paths == (PATH,)
    assert (await answers.handle(Request("POST", "/convert"))).status == 404
