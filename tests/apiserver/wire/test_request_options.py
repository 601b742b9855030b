import pytest

from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions, delete_options, write_options
from levelset.errors import BadRequest, Invalid
from levelset.http import Headers, Request


def request(query: str = "", *, body: bytes = b"", agent: str = "", media: str = "application/json") -> Request:
    headers = Headers({"user-agent": agent, "content-type": media})
    return Request("POST", "/", query, headers, body)


def test_the_manager_is_the_first_part_of_the_user_agent() -> None:
    assert write_options(request(agent="my-agent/v1.2 (linux)"), "CreateOptions").manager == "my-agent"


def test_without_a_user_agent_the_manager_is_unknown() -> None:
    assert write_options(request(), "CreateOptions").manager == "unknown"


def test_a_user_agent_is_stripped_of_unprintable_characters_and_truncated() -> None:
    manager = write_options(request(agent="a\x01b" + "c" * 200), "CreateOptions").manager
    assert manager == "ab" + "c" * 126


def test_write_options_are_read_from_the_query() -> None:
    found = write_options(request("dryRun=All&fieldManager=me&fieldValidation=Strict&force=true"), "PatchOptions")
    assert (found.dry_run, found.manager, found.validation, found.force, found.has_manager) == (
        True,
        "me",
        "Strict",
        True,
        True,
    )


def test_force_can_be_false() -> None:
    assert write_options(request("force=false"), "PatchOptions").force is False
    assert write_options(request("fieldManager=x"), "PatchOptions").force is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("dryRun=Some", "dryRun"),
        ("dryRun=", "dryRun"),
        ("dryRun=All&dryRun=None", "dryRun"),
        ("fieldValidation=Maybe", "fieldValidation"),
        (f"fieldManager={'x' * 129}", "fieldManager"),
        ("fieldManager=%01", "fieldManager"),
    ],
)
def test_unknown_values_are_invalid_options(query: str, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        write_options(request(query), "UpdateOptions")
    assert [one.field for one in caught.value.causes] == [field]
    assert caught.value.details == {"group": "meta.k8s.io", "kind": "UpdateOptions"}


def test_each_request_collects_its_own_warnings() -> None:
    assert WriteOptions().warnings is not WriteOptions().warnings


def test_a_delete_without_options_has_defaults() -> None:
    assert delete_options(request()) == DeleteOptions()
    assert delete_options(request(body=b"  ")) == DeleteOptions()


def test_delete_options_are_read_from_the_query() -> None:
    found = delete_options(request("gracePeriodSeconds=5&propagationPolicy=Orphan&dryRun=All"))
    assert found == DeleteOptions(dry_run=True, grace_seconds=5, propagation="Orphan")


def test_delete_options_in_the_body_win() -> None:
    body = b'{"kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"]}'
    found = delete_options(request("propagationPolicy=Orphan", body=body))
    assert found == DeleteOptions(dry_run=True, uid="u", resource_version="7")


def test_delete_options_can_be_yaml() -> None:
    found = delete_options(request(body=b"propagationPolicy: Foreground\n", media="application/yaml"))
    assert found.propagation == "Foreground"


@pytest.mark.parametrize(("value", "policy"), [("true", "Orphan"), ("false", "Background")])
def test_the_deprecated_orphan_dependents_is_supported(value: str, policy: str) -> None:
    found = delete_options(request(f"orphanDependents={value}"))
    assert (found.propagation, found.orphan_dependents) == (policy, value == "true")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"propagationPolicy":"Sideways"}', "propagationPolicy"),
        (b'{"propagationPolicy":"Orphan","orphanDependents":true}', "propagationPolicy"),
        (b'{"dryRun":["None"]}', "dryRun"),
    ],
)
def test_unknown_or_contradicting_delete_options_are_invalid(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        delete_options(request(body=body))
    assert [one.field for one in caught.value.causes] == [field]
    assert caught.value.details["kind"] == "DeleteOptions"


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"[]",
        b'{"kind":"ConfigMap"}',
        b'{"dryRun":"All"}',
        b'{"gracePeriodSeconds":true}',
        b'{"preconditions":1}',
    ],
)
def test_a_body_that_is_not_delete_options_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        delete_options(request(body=body))


def test_a_grace_period_that_is_not_a_number_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="strconv.ParseInt"):
        delete_options(request("gracePeriodSeconds=soon"))
