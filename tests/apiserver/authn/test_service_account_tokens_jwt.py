import base64
import json
from typing import Any

import pytest

from levelset.apiserver.authn.service_account_tokens import read_token, sign_token

KEY = b"k" * 32
CLAIMS = {"sub": "a", "exp": 1}


def test_what_was_signed_is_read_again() -> None:
    assert read_token(sign_token(CLAIMS, KEY), KEY) == CLAIMS


def test_a_token_of_another_key_is_none() -> None:
    assert read_token(sign_token(CLAIMS, KEY), b"x" * 32) is None


def packed(tree: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS512", "RS256", None])
def test_no_token_says_how_it_is_checked(algorithm: str | None) -> None:
    _, payload, signature = sign_token(CLAIMS, KEY).split(".")
    head = packed({"alg": algorithm, "typ": "JWT"})
    for last in ("", signature):
        assert read_token(f"{head}.{payload}.{last}", KEY) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_token_that_was_changed_anywhere_is_none(place: int) -> None:
    parts = sign_token(CLAIMS, KEY).split(".")
    parts[place] = ("A" if parts[place][0] != "A" else "B") + parts[place][1:]
    assert read_token(".".join(parts), KEY) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b.c", "ä.b.c", "." * 100_000, "\udcff", f"{sign_token(CLAIMS, KEY)}="]
)
def test_what_is_no_token_is_none(token: str) -> None:
    assert read_token(token, KEY) is None


def test_claims_that_are_no_object_are_none() -> None:
    claims: Any = [1]  # signed by mistake
    assert read_token(sign_token(claims, KEY), KEY) is None
