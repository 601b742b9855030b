import pytest

from levelset.apiserver.wire import status_errors
from levelset.errors import Cause
from tests.apiserver.support.server_state import configmaps, make_served, make_state

WIDGETS = make_served()


def test_errors_name_the_resource() -> None:
    error = status_errors.stale(WIDGETS, "a", "5")
    assert error.message.startswith(
        'Operation cannot be fulfilled on widgets.example.com "a": the object has been modified'
    )
    assert error.details == {"name": "a", "group": "example.com", "kind": "widgets"}


def test_an_invalid_object_is_named_by_its_kind() -> None:
    error = status_errors.invalid(WIDGETS, "a", [Cause("spec.n", "FieldValueInvalid", "Invalid value: 1: too small")])
    assert error.message == 'Widget.example.com "a" is invalid: spec.n: Invalid value: 1: too small'
    assert error.details == {"name": "a", "group": "example.com", "kind": "Widget"}


def test_several_causes_are_joined_in_the_message() -> None:
    causes = [Cause("a", "FieldValueRequired", "Required value"), Cause("", "FieldValueInvalid", "odd")]
    error = status_errors.invalid_options("CreateOptions", causes)
    assert error.message == 'CreateOptions.meta.k8s.io "" is invalid: [a: Required value, odd]'


def test_the_core_group_is_not_named() -> None:
    state, _ = make_state()
    assert status_errors.not_found(configmaps(state), "a").details == {"name": "a", "kind": "configmaps"}


def test_a_terminating_namespace_is_a_cause() -> None:
    error = status_errors.terminating_namespace(WIDGETS, "a", "x")
    assert (error.code, [one.reason for one in error.causes]) == (403, ["NamespaceTerminating"])


def test_the_name_of_an_object_that_is_being_deleted_is_taken() -> None:
    assert status_errors.already_exists(WIDGETS, "a", deleting=True).message.startswith("object is being deleted: ")


def test_the_number_of_reported_causes_is_limited() -> None:
    causes = [Cause(f"spec.n{number}", "FieldValueInvalid", "Invalid value: 1") for number in range(2000)]
    error = status_errors.invalid(WIDGETS, "a", causes)
    assert len(error.causes) == 501
    assert error.message.endswith("spec.n499: Invalid value: 1, and 1500 more]")


@pytest.mark.parametrize(("version", "problem"), [("odd", "invalid syntax"), ("9" * 20, "value out of range")])
def test_a_version_that_is_no_number_is_no_conflict(version: str, problem: str) -> None:
    error = status_errors.stale(WIDGETS, "a", version)
    assert (error.code, error.message) == (500, f'strconv.ParseUint: parsing "{version}": {problem}')
