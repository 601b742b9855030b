"""The page is one self-contained document with a strict Content-Security-Policy."""

import base64
import hashlib
import re

from levelset.dashboard.app import read_page

PAGE = read_page()
TEXT = PAGE.body.decode()


def test_style_and_script_match_the_policy_hashes() -> None:
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", TEXT, re.DOTALL)
        name = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{name}'" in PAGE.policy


def test_the_policy_allows_nothing_else() -> None:
    assert PAGE.policy.startswith("default-src 'none'; ")
    assert "unsafe" not in PAGE.policy
    assert "*" not in PAGE.policy
    assert "http" not in PAGE.policy
    for directive in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for"):
        assert directive in PAGE.policy


def test_nothing_is_loaded_from_elsewhere() -> None:
    assert not re.findall(r"https?:|//[a-z]|@import|url\(|src=", re.sub(r"(?m)//\s.*$", "", TEXT))


def test_object_data_is_only_set_as_text() -> None:
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|srcdoc|\bon\w+=", TEXT)


def test_links_stay_on_the_page() -> None:
    assert set(re.findall(r'href="([^"]*)"', TEXT)) == {"data:,", "#main", "#/", "#/events"}
    built = re.findall(r"href: ([^,}]+)", TEXT)
    assert built
    assert all(one.strip().startswith(('"#/', "toKind(", "toObject(")) for one in built)


def test_the_page_respects_colour_scheme_and_reduced_motion() -> None:
    assert "prefers-color-scheme: dark" in TEXT
    assert "prefers-reduced-motion" in TEXT
