import pytest

from levelset.apiserver.authn.authenticator import ANONYMOUS, MASTERS, OWNER, Access, Caller
from levelset.errors import Forbidden, Unauthorized
from levelset.http import Headers, Peer, Request

BOB = Caller("bob", ("team", "system:authenticated"))


def request(path: str = "/api", peer: Peer | None = None, **headers: str) -> Request:
    return Request(
        "GET", path, headers=Headers({name.replace("_", "-"): value for name, value in headers.items()}), peer=peer
    )


def test_a_token_tells_who_asks() -> None:
    access = Access({"one": OWNER, "two": BOB})
    assert access.caller(request(authorization="Bearer one")) == OWNER
    assert access.caller(request(authorization="bearer two")) == BOB


@pytest.mark.parametrize("given", ["Bearer no", "Bearer ", "Basic one", "one", "Bearer one two", "Bearer \udcff"])
def test_what_is_no_known_token_is_refused(given: str) -> None:
    with pytest.raises(Unauthorized):
        Access(["one"]).caller(request(authorization=given))


def test_a_wrong_token_is_refused_even_with_a_good_certificate() -> None:
    with pytest.raises(Unauthorized):
        Access(["one"]).caller(request(peer=Peer("root", (MASTERS,)), authorization="Bearer no"))


def test_a_certificate_names_a_user_and_its_groups() -> None:
    found = Access().caller(request(peer=Peer("jane", ("team",))))
    assert (found.name, found.groups, found.is_master) == ("jane", ("team", "system:authenticated"), False)
    assert Access().caller(request(peer=Peer("root", (MASTERS,)))).is_master


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/livez/ping", "/readyz", "/version", "/version/"])
def test_anybody_may_ask_for_health_and_version(path: str) -> None:
    assert Access(["one"]).caller(request(path)) == ANONYMOUS
    assert Access(["one"]).caller(request(path, authorization="Bearer no")) == ANONYMOUS


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/openapi/v3", "/metrics", "/healthzz", "/levelset/compact"])
def test_nobody_may_ask_for_anything_else(path: str) -> None:
    with pytest.raises(Unauthorized):
        Access(["one"]).caller(request(path))


def test_the_owner_may_speak_for_others() -> None:
    headers = Headers(
        [
            ("authorization", "Bearer one"),
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
        ]
    )
    sent = Request("GET", "/api", headers=headers)
    assert Access(["one"]).caller(sent) == Caller("bob", ("a", "b", "system:authenticated"))


def test_others_may_not_speak_for_anybody() -> None:
    with pytest.raises(Forbidden, match="impersonate"):
        Access({"two": BOB}).caller(request(authorization="Bearer two", impersonate_user="root"))


def test_a_group_alone_is_nobody() -> None:
    with pytest.raises(Forbidden, match="Impersonate-User"):
        Access(["one"]).caller(request(authorization="Bearer one", impersonate_group=MASTERS))


def test_somebody_without_credentials_is_let_in_as_nobody_if_the_server_says_so() -> None:
    access = Access(["one"])
    access.admits_anonymous = True
    assert access.caller(request("/api")) == ANONYMOUS
    with pytest.raises(Unauthorized):
        access.caller(request("/api", authorization="Bearer no"))


def test_a_token_of_an_account_is_asked_for_every_time() -> None:
    access, known = Access(["one"]), {"theirs": BOB}
    access.accounts = known.get
    sent = request(authorization="Bearer theirs")
    assert (access.caller(sent), access.token_caller("theirs")) == (BOB, BOB)
    known.clear()
    with pytest.raises(Unauthorized):
        access.caller(sent)


def test_a_certificate_without_a_name_is_nobodys() -> None:
    with pytest.raises(Unauthorized):
        Access().caller(request(peer=Peer("", (MASTERS,))))


def test_whose_credentials_came_is_known_whomever_they_speak_for() -> None:
    access = Access({"two": BOB})
    assert access.sender(request(authorization="Bearer two", impersonate_user="root")) == BOB
    assert access.sender(request(authorization="Bearer no")) is None


def test_a_token_can_be_asked_about() -> None:
    access = Access({"two": BOB})
    assert (access.token_caller("two"), access.token_caller("three")) == (BOB, None)


def test_an_open_door_lets_everybody_in_as_the_owner() -> None:
    assert Access(is_open=True).caller(request()) == OWNER
    assert Access(is_open=True).caller(request(authorization="Bearer any")) == OWNER
