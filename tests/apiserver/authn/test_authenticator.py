import pytest

from levelset.apiserver.authn.authenticator import ADMIN, ANONYMOUS, MASTERS, Authenticator, User
from levelset.errors import BadRequest, Forbidden, Unauthorized
from levelset.http import Headers, Peer, Request

BOB = User("bob", ("team", "system:authenticated"))


def request(path: str = "/api", peer: Peer | None = None, **headers: str) -> Request:
    return Request(
        "GET", path, headers=Headers({name.replace("_", "-"): value for name, value in headers.items()}), peer=peer
    )


def test_a_bearer_token_authenticates_its_user() -> None:
    authenticator = Authenticator({"one": ADMIN, "two": BOB})
    assert authenticator.authenticate(request(authorization="Bearer one")) == ADMIN
    assert authenticator.authenticate(request(authorization="bearer two")) == BOB


@pytest.mark.parametrize("given", ["Bearer no", "Bearer ", "Basic one", "one", "Bearer one two", "Bearer \udcff"])
def test_an_unknown_credential_is_unauthorized(given: str) -> None:
    with pytest.raises(Unauthorized):
        Authenticator(["one"]).authenticate(request(authorization=given))


def test_a_wrong_token_is_unauthorized_even_with_a_valid_certificate() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(["one"]).authenticate(request(peer=Peer("root", (MASTERS,)), authorization="Bearer no"))


def test_a_certificate_authenticates_a_user_with_its_groups() -> None:
    found = Authenticator().authenticate(request(peer=Peer("jane", ("team",))))
    assert (found.name, found.groups, found.is_master) == ("jane", ("team", "system:authenticated"), False)
    assert Authenticator().authenticate(request(peer=Peer("root", (MASTERS,)))).is_master


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/livez/ping", "/readyz", "/version", "/version/"])
def test_health_and_version_need_no_credentials(path: str) -> None:
    assert Authenticator(["one"]).authenticate(request(path)) == ANONYMOUS
    with pytest.raises(Unauthorized):
        Authenticator(["one"]).authenticate(request(path, authorization="Bearer no"))


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/openapi/v3", "/metrics", "/healthzz", "/levelset/compact"])
def test_all_other_paths_need_credentials(path: str) -> None:
    with pytest.raises(Unauthorized):
        Authenticator(["one"]).authenticate(request(path))


def test_the_admin_can_impersonate() -> None:
    headers = Headers(
        [
            ("authorization", "Bearer one"),
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
        ]
    )
    sent = Request("GET", "/api", headers=headers)
    assert Authenticator(["one"]).authenticate(sent) == User("bob", ("a", "b", "system:authenticated"))


def test_other_users_cannot_impersonate_without_permission() -> None:
    with pytest.raises(Forbidden, match="impersonate"):
        Authenticator({"two": BOB}).authenticate(request(authorization="Bearer two", impersonate_user="root"))


def test_impersonating_a_group_without_a_user_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="Impersonate-User"):
        Authenticator(["one"]).authenticate(request(authorization="Bearer one", impersonate_group=MASTERS))


def test_a_request_without_credentials_is_anonymous_if_that_is_allowed() -> None:
    authenticator = Authenticator(["one"])
    authenticator.allow_anonymous = True
    assert authenticator.authenticate(request("/api")) == ANONYMOUS
    with pytest.raises(Unauthorized):
        authenticator.authenticate(request("/api", authorization="Bearer no"))


def test_a_service_account_token_is_verified_at_every_request() -> None:
    authenticator, known = Authenticator(["one"]), {"theirs": BOB}
    authenticator.service_account_user = known.get
    sent = request(authorization="Bearer theirs")
    assert (authenticator.authenticate(sent), authenticator.authenticate_token("theirs")) == (BOB, BOB)
    known.clear()
    with pytest.raises(Unauthorized):
        authenticator.authenticate(sent)


def test_a_certificate_without_a_common_name_is_unauthorized() -> None:
    with pytest.raises(Unauthorized):
        Authenticator().authenticate(request(peer=Peer("", (MASTERS,))))


def test_the_user_of_the_credentials_is_known_before_impersonation() -> None:
    authenticator = Authenticator({"two": BOB})
    assert authenticator.credentials_user(request(authorization="Bearer two", impersonate_user="root")) == BOB
    assert authenticator.credentials_user(request(authorization="Bearer no")) is None


def test_a_token_can_be_authenticated_without_a_request() -> None:
    authenticator = Authenticator({"two": BOB})
    assert (authenticator.authenticate_token("two"), authenticator.authenticate_token("three")) == (BOB, None)


def test_an_open_server_authenticates_every_request_as_the_admin() -> None:
    assert Authenticator(is_open=True).authenticate(request()) == ADMIN
    assert Authenticator(is_open=True).authenticate(request(authorization="Bearer any")) == ADMIN
