from levelset.apiserver.authn.users import ANONYMOUS, OWNER, Caller, account_caller, user_info


def test_only_masters_are_masters() -> None:
    assert OWNER.is_master
    assert not ANONYMOUS.is_master
    assert not Caller("system:masters").is_master


def test_a_service_account_is_a_user_in_three_groups() -> None:
    found = account_caller("a", "b", "u")
    assert (found.name, found.uid) == ("system:serviceaccount:a:b", "u")
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated")


def test_a_caller_is_shown_without_what_it_does_not_have() -> None:
    assert user_info(Caller("a")) == {"username": "a", "groups": []}
    whole = user_info(Caller("a", ("b",), "c", (("d", ("e",)),)))
    assert whole == {"username": "a", "uid": "c", "groups": ["b"], "extra": {"d": ["e"]}}


def test_who_speaks_for_somebody_makes_no_other_of_them() -> None:
    assert Caller("a", by=OWNER) == Caller("a")
    assert hash(Caller("a", by=OWNER)) == hash(Caller("a"))
