import base64
import json
from typing import Any

import pytest

from levelset.apiserver.authn.service_account_tokens import sign_token, verify_token

KEY = b"k" * 32
CLAIMS = {"sub": "a", "exp": 1}


def test_a_signed_token_verifies_to_its_claims() -> None:
    assert verify_token(sign_token(CLAIMS, KEY), KEY) == CLAIMS


def test_a_token_of_another_key_does_not_verify() -> None:
    assert verify_token(sign_token(CLAIMS, KEY), b"x" * 32) is None


def packed(tree: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS512", "RS256", None])
def test_a_token_cannot_choose_its_algorithm(algorithm: str | None) -> None:
    _, payload, signature = sign_token(CLAIMS, KEY).split(".")
    head = packed({"alg": algorithm, "typ": "JWT"})
    for last in ("", signature):
        assert verify_token(f"{head}.{payload}.{last}", KEY) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_token_that_was_changed_anywhere_does_not_verify(place: int) -> None:
    parts = sign_token(CLAIMS, KEY).split(".")
    parts[place] = ("A" if parts[place][0] != "A" else "B") + parts[place][1:]
    assert verify_token(".".join(parts), KEY) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b.c", "ä.b.c", "." * 100_000, "\udcff", f"{sign_token(CLAIMS, KEY)}="]
)
def test_text_that_is_not_a_token_does_not_verify(token: str) -> None:
    assert verify_token(token, KEY) is None


def test_claims_that_are_not_an_object_do_not_verify() -> None:
    claims: Any = [1]  # signed by mistake
    assert verify_token(sign_token(claims, KEY), KEY) is None
