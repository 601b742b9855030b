import base64
import json
from typing import Any

import jwt
import pytest

from levelset.apiserver.authn.service_account_tokens import AUDIENCE, sign_token, verify_token

KEY = b"k" * 32
HERE = ("here",)
CLAIMS = {"aud": ["here", "there"], "exp": 2, "iat": 1, "iss": AUDIENCE, "jti": "1", "nbf": 1, "sub": "a"}
# Signed by the version that had its own HS256 (cbd5980).
EARLIER = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    "eyJhdWQiOlsiaGVyZSIsInRoZXJlIl0sImV4cCI6MiwiaWF0IjoxLCJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZG"
    "VmYXVsdC5zdmMiLCJqdGkiOiIxIiwibmJmIjoxLCJzdWIiOiJhIn0."
    "K9nm-iT8ZYvCbIp0O8FhQIvA1CSaXIidLLBRToa9zOY"
)


def test_a_signed_token_verifies_to_its_claims() -> None:
    assert verify_token(sign_token(CLAIMS, KEY), KEY, HERE) == CLAIMS


def test_a_token_of_an_earlier_version_verifies_and_is_still_signed_alike() -> None:
    assert verify_token(EARLIER, KEY, HERE) == CLAIMS
    assert sign_token(CLAIMS, KEY) == EARLIER


def test_a_token_of_another_key_does_not_verify() -> None:
    assert verify_token(sign_token(CLAIMS, KEY), b"x" * 32, HERE) is None


@pytest.mark.parametrize(
    ("audiences", "is_valid"),
    [(("there",), True), (("x", "here"), True), (None, True), (("x",), False), ((), False), (("her",), False)],
)
def test_a_token_verifies_for_one_of_its_audiences(audiences: tuple[str, ...] | None, is_valid: bool) -> None:
    assert (verify_token(sign_token(CLAIMS, KEY), KEY, audiences) is not None) is is_valid


@pytest.mark.parametrize("claim", ["aud", "exp", "iss", "nbf", "sub"])
def test_a_token_without_a_required_claim_does_not_verify(claim: str) -> None:
    rest = {name: value for name, value in CLAIMS.items() if name != claim}
    assert verify_token(sign_token(rest, KEY), KEY, HERE) is None
    assert verify_token(sign_token(rest, KEY), KEY, None) is None


def test_a_token_of_another_issuer_does_not_verify() -> None:
    assert verify_token(sign_token({**CLAIMS, "iss": "https://elsewhere"}, KEY), KEY, HERE) is None


def packed(tree: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS512", "RS256", None, 1, ["HS256"], {}])
def test_a_token_cannot_choose_its_algorithm(algorithm: Any) -> None:
    _, payload, signature = sign_token(CLAIMS, KEY).split(".")
    head = packed({"alg": algorithm, "typ": "JWT"})
    for last in ("", signature):
        assert verify_token(f"{head}.{payload}.{last}", KEY, HERE) is None


@pytest.mark.parametrize("algorithm", ["HS384", "HS512", "none"])
def test_a_token_that_is_signed_with_another_algorithm_does_not_verify(algorithm: str) -> None:
    key = None if algorithm == "none" else KEY * 2
    made = jwt.encode(CLAIMS, key, algorithm)  # type: ignore[arg-type]
    assert verify_token(made, KEY * 2, HERE) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_token_that_was_changed_anywhere_does_not_verify(place: int) -> None:
    parts = sign_token(CLAIMS, KEY).split(".")
    parts[place] = ("A" if parts[place][0] != "A" else "B") + parts[place][1:]
    assert verify_token(".".join(parts), KEY, HERE) is None


DEEP = base64.urlsafe_b64encode(b"[" * 10_000).decode()


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "ä.b.c", "." * 100_000, "\udcff", f"{DEEP}.a.b"])
def test_text_that_is_not_a_token_does_not_verify(token: str) -> None:
    assert verify_token(token, KEY, HERE) is None


def test_claims_that_are_not_an_object_do_not_verify() -> None:
    assert verify_token(jwt.api_jws.encode(b"[1]", KEY, "HS256"), KEY, HERE) is None
