from levelset.apiserver.authn.users import ADMIN, ANONYMOUS, User, service_account_user, user_info


def test_only_masters_are_masters() -> None:
    assert ADMIN.is_master
    assert not ANONYMOUS.is_master
    assert not User("system:masters").is_master


def test_a_service_account_is_a_user_in_three_groups() -> None:
    found = service_account_user("a", "b", "u")
    assert (found.name, found.uid) == ("system:serviceaccount:a:b", "u")
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")


def test_user_info_omits_empty_fields() -> None:
    assert user_info(User("a")) == {"username": "a", "groups": []}
    whole = user_info(User("a", ("b",), "c", (("d", ("e",)),)))
    assert whole == {"username": "a", "uid": "c", "groups": ["b"], "extra": {"d": ["e"]}}


def test_the_impersonator_does_not_affect_equality() -> None:
    assert User("a", impersonated_by=ADMIN) == User("a")
    assert hash(User("a", impersonated_by=ADMIN)) == hash(User("a"))
