"""How errors are caught and made."""

from typing import assert_type

from levelset.errors import ApiError, ApplyConflict, Denied, FieldConflict, Malformed, NotFound, Retry


def status_code(error: ApiError) -> int:
    return error.code


def owners(error: ApplyConflict) -> list[str]:
    return [conflict.manager for conflict in error.conflicts]


def place(error: Malformed) -> str:
    return error.field if error.field is not None else f"character {error.position}"


def not_found_is_also_a_lookup_error(error: NotFound) -> LookupError:
    return error


def malformed_is_also_a_value_error(error: Malformed) -> ValueError:
    return error


conflict = FieldConflict(manager="kubectl", field=".spec.replicas", message="owned by kubectl")
assert_type(ApplyConflict("taken", [conflict]).conflicts, tuple[FieldConflict, ...])
assert_type(Retry("the secret is not there yet", seconds=30).seconds, float | None)
assert_type(Denied("at least one replica is needed", field="spec.replicas").field, str | None)
