import asyncio
import logging
from typing import Any

import pytest

from levelset import ApiError, Conflict, Denied, Unstructured
from levelset.errors import Cause, Invalid, NotFound
from levelset.objects import GroupVersionKind
from levelset.runtime.webhook import MatchCondition, Review, defaults, validates
from levelset.testing.virtual_time import virtual
from tests.runtime.webhook.site_kinds import Site, patched, request, review_result, site


def latest(one: Site) -> Site:
    return one if ":" in one.spec.image else one.with_spec(image=f"{one.spec.image}:latest")


def fine(one: Site) -> None:
    assert one.name == "blog"


async def test_changes_of_a_function_become_a_minimal_patch() -> None:
    sent = site(image="nginx")
    response = await defaults(Site, latest).review(request(sent))
    assert patched(sent, response) == {**sent, "spec": {"stranger": 1, "image": "nginx:latest"}}


async def test_an_unchanged_object_has_no_patch() -> None:
    assert await defaults(Site, latest).review(request(site(image="nginx:1"))) == {"uid": "u-1", "allowed": True}


async def test_a_change_to_a_map_inside_of_the_object_counts_too() -> None:
    def mark(one: Site) -> Site:
        one.metadata.labels["marked"] = "yes"
        return one

    response = await defaults(Site, mark).review(request(site()))
    assert patched(site(), response)["metadata"]["labels"] == {"app": "shop", "marked": "yes"}


async def test_each_function_gets_the_result_of_the_one_before() -> None:
    def twice(one: Site, review: Review[Site]) -> Site:
        assert one is review.new
        return one.with_spec(image=one.spec.image * 2)

    response = await defaults(Site, twice, twice).review(request(site(image="a")))
    assert patched(site(image="a"), response)["spec"]["image"] == "aaaa"


async def test_a_kind_without_a_class_is_changed_as_a_tree() -> None:
    def grow(one: Unstructured) -> Unstructured:
        one.tree["spec"]["replicas"] = 3
        return one

    hook = defaults(GroupVersionKind("example.dev", "v2", "Site"), grow)
    sent = site()
    assert patched(sent, await hook.review(request(sent)))["spec"] == {"stranger": 1, "replicas": 3}
    assert "replicas" not in sent["spec"]


async def test_a_coroutine_function_is_awaited() -> None:
    async def later(one: Site) -> Site:
        await asyncio.sleep(0)
        return latest(one)

    assert "patch" in await defaults(Site, later).review(request(site()))


async def test_a_denial_is_403_and_names_the_field() -> None:
    def check(one: Site) -> None:
        raise Denied(f"{one.spec.replicas} is too few", field="spec.replicas")

    response = await validates(Site, check).review(request(site(replicas=0)))
    assert response == {
        "uid": "u-1",
        "allowed": False,
        "status": {
            "status": "Failure",
            "message": "spec.replicas: 0 is too few",
            "reason": "Forbidden",
            "code": 403,
            "details": {
                "group": "example.dev",
                "kind": "sites",
                "causes": [
                    {"reason": "FieldValueInvalid", "message": "0 is too few", "field": "spec.replicas"},
                ],
            },
        },
    }


async def test_several_denials_are_reported_together() -> None:
    def check(_: Site) -> None:
        raise ExceptionGroup("both", [Denied("no", field="a"), Denied("never")])

    assert await review_result(validates(Site, check), request(site())) == (False, 403, "[a: no, never]")


async def test_an_api_error_is_a_rejection_with_its_own_code_and_causes() -> None:
    def check(_: Site) -> None:
        raise Invalid("it is wrong", causes=[Cause("spec.image", "FieldValueRequired", "is needed")])

    response = await validates(Site, check).review(request(site()))
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert response["status"]["details"]["causes"][0]["field"] == "spec.image"


async def test_an_error_raised_by_a_client_is_a_failure_and_not_a_rejection(caplog: pytest.LogCaptureFixture) -> None:
    def check(_: Site) -> None:
        error = NotFound("no such thing")
        error.request = "get Secret/default/key"
        raise error

    allowed, code, message = await review_result(validates(Site, check), request(site()))
    assert (allowed, code) == (False, 500)
    assert message == "it failed with NotFound; see the log of the webhook for uid u-1"
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("error", [KeyError("secret"), ExceptionGroup("both", [Denied("no"), KeyError("x")])])
async def test_an_unexpected_error_is_500_with_details_only_in_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def check(_: Site) -> None:
        raise error

    allowed, code, message = await review_result(validates(Site, check), request(site()))
    assert (allowed, code, "secret" in message) == (False, 500, False)
    assert caplog.records[0].exc_info


async def test_failure_policy_ignore_admits_with_a_warning() -> None:
    def check(one: Site) -> None:
        raise KeyError(one.name)

    response = await validates(Site, check, failure_policy="Ignore").review(request(site()))
    assert response["allowed"]
    assert response["warnings"] == ["check.sites.example.dev failed and was ignored: it failed with KeyError"]


async def test_a_denial_is_never_ignored() -> None:
    def check(_: Site) -> None:
        raise Denied("no")

    assert await review_result(validates(Site, check, failure_policy="Ignore"), request(site())) == (False, 403, "no")


@virtual
async def test_a_function_that_takes_too_long_is_cancelled_before_the_server_times_out() -> None:
    ended: list[float] = []

    async def slow(_: Site) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(asyncio.get_running_loop().time())

    began = asyncio.get_running_loop().time()
    allowed, code, message = await review_result(validates(Site, slow, timeout=5), request(site()))
    assert (allowed, code) == (False, 504)
    assert message.startswith("no response within 5 seconds")
    assert ended[0] - began == pytest.approx(4.5)


async def test_a_timeout_of_the_function_itself_is_not_the_deadline() -> None:
    def check(_: Site) -> None:
        raise TimeoutError

    assert (await review_result(validates(Site, check), request(site())))[1] == 500


async def test_warnings_and_audit_annotations_are_in_every_response() -> None:
    def check(_: Site, review: Review[Site]) -> None:
        review.warn("first")
        review.annotate("checked", "yes")
        raise Conflict("not now")

    response = await validates(Site, check).review(request(site()))
    assert (response["warnings"], response["auditAnnotations"]) == (["first"], {"checked": "yes"})
    assert response["status"]["code"] == 409


async def test_a_rejected_object_has_no_patch() -> None:
    def refuse(_: Site) -> Site:
        raise Denied("no")

    assert "patch" not in await defaults(Site, latest, refuse).review(request(site()))


async def test_the_review_has_user_operation_and_objects() -> None:
    seen: list[Any] = []

    def inspect_review(review: Review[Site]) -> None:
        seen.append((review.operation, review.user.name, review.user.groups, review.user.extra, review.subresource))
        seen.append((review.name, review.namespace, review.dry_run, review.options["kind"], repr(review)))
        assert review.old is not None
        seen.append((review.new.spec.replicas, review.old.spec.replicas, review.old is review.old))

    reviewed = request(site(replicas=2), site(), operation="UPDATE", dryRun=True, subResource="status")
    assert await review_result(validates(Site, inspect_review, subresources="status"), reviewed) == (True, 200, "")
    assert seen[0] == ("update", "ann", ("staff",), {"scope": ("all",)}, "status")
    assert seen[1] == ("blog", "default", True, "CreateOptions", "Review(update default/blog/status for ann)")
    assert seen[2] == (2, 1, True)


async def test_a_delete_review_has_the_object_that_is_deleted() -> None:
    def keep(one: Site, review: Review[Site]) -> None:
        assert review.old == one
        raise Denied(f"{one.name} must stay")

    reviewed = request(None, site(), operation="DELETE")
    assert await review_result(validates(Site, keep, on="delete"), reviewed) == (False, 403, "blog must stay")


async def test_a_connect_review_has_the_options_object_of_the_server() -> None:
    def inspect_review(one: Unstructured) -> None:
        raise Denied(f"no {one.kind}")

    hook = validates(GroupVersionKind("", "v1", "Pod"), inspect_review, on="connect", subresources="exec")
    shown = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"]}
    assert await review_result(hook, request(shown, operation="CONNECT")) == (False, 403, "no PodExecOptions")


async def test_an_object_that_does_not_fit_its_class_is_422_and_names_the_field() -> None:
    allowed, code, message = await review_result(validates(Site, fine), request(site(replicas="many")))
    assert (allowed, code) == (False, 422)
    assert "spec.replicas" in message


async def test_an_old_object_that_no_longer_fits_only_matters_if_it_is_read() -> None:
    def inspect_review(_: Site, review: Review[Site]) -> None:
        assert review.old

    reviewed = request(site(), site(replicas="many"), operation="UPDATE")
    assert await review_result(validates(Site, fine), reviewed) == (True, 200, "")
    assert (await review_result(validates(Site, inspect_review), reviewed))[1] == 422


@pytest.mark.parametrize("when", ["selector", "old", "when", "match"])
async def test_objects_excluded_by_selectors_and_conditions_are_not_reviewed(when: str) -> None:
    def never(_: Site) -> None:
        raise Denied("reviewed")

    paused = MatchCondition[Site]("not-paused", "!object.spec.paused", lambda review: not review.new.spec.paused)
    hooks = {
        "selector": validates(Site, never, object_selector="app=other"),
        "old": validates(Site, never, object_selector="app=shop"),
        "when": validates(Site, never, when=lambda review: review.user.name != "ann"),
        "match": validates(Site, never, when=[paused]),
    }
    reviewed = request(site(paused=True))
    if when == "old":
        unlabeled = {**site(), "metadata": {"name": "blog"}}
        assert not (await hooks[when].review(request(unlabeled, site(), operation="UPDATE")))["allowed"]
        reviewed = request(unlabeled, unlabeled, operation="UPDATE")
    assert await review_result(hooks[when], reviewed) == (True, 200, "")


async def test_the_namespace_selector_is_evaluated_if_the_namespace_is_known() -> None:
    def never(_: Site) -> None:
        raise Denied("reviewed")

    hook = validates(Site, never, namespace_selector="env in (prod)")
    assert (await hook.review(request(site()), {"metadata": {"labels": {"env": "test"}}}))["allowed"]
    assert not (await hook.review(request(site()), {"metadata": {"labels": {"env": "prod"}}}))["allowed"]
    assert not (await hook.review(request(site()), None))["allowed"]


async def test_a_missing_return_value_is_explained() -> None:
    def forgets(_: Site) -> Any:
        pass

    def answers(_: Site) -> Any:
        return False

    _, code, message = await review_result(defaults(Site, forgets), request(site()))
    assert (code, message.partition(";")[0]) == (500, "forgets returned nothing")
    _, code, message = await review_result(validates(Site, answers), request(site()))
    assert message.startswith("answers returned bool; raise Denied to reject the write")


async def test_a_function_must_not_change_the_identity_of_the_object() -> None:
    def rename(one: Site) -> Site:
        return one.with_metadata(name="other")

    assert "metadata.name" in (await review_result(defaults(Site, rename), request(site())))[2]


async def test_without_a_client_the_review_explains_how_to_get_one() -> None:
    def inspect_review(review: Review[Site]) -> None:
        review.client.in_namespace("default")

    assert await review_result(validates(Site, inspect_review), request(site())) == (
        False,
        500,
        "it failed with NotReady; see the log of the webhook for uid u-1",
    )


async def test_a_cancelled_request_cancels_the_function() -> None:
    async def wait(_: Site) -> None:
        await asyncio.Event().wait()

    review = asyncio.ensure_future(validates(Site, wait).review(request(site())))
    await asyncio.sleep(0)
    review.cancel()
    with pytest.raises(asyncio.CancelledError):
        await review


async def test_a_server_error_that_a_function_raises_is_its_failure() -> None:
    def check(_: Site) -> None:
        raise ApiError("I am broken", code=503)

    assert (await review_result(validates(Site, check), request(site())))[1] == 500
