"""The page loads only its own files, sets only texts, and has a strict Content-Security-Policy."""

import hashlib
import re
from pathlib import Path

import pytest

from levelset.dashboard.page_assets import FOLDER, content_policy, read_assets

OWN = {name: one.body.decode() for name, one in read_assets().items() if not name.startswith("vendor/")}
MODULES = {name: text for name, text in OWN.items() if name.endswith(".js")}
POLICY = content_policy("127.0.0.1:8080/d-1/")


def test_the_policy_allows_nothing_else() -> None:
    directives = dict(one.partition(" ")[::2] for one in POLICY.split("; "))
    assert directives == {
        "default-src": "'none'",
        "style-src": "http://127.0.0.1:8080/d-1/assets/",
        "script-src": "http://127.0.0.1:8080/d-1/assets/",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


@pytest.mark.parametrize("name", sorted(OWN))
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    text = re.sub(r"(?m)//\s.*$", "", OWN[name])
    assert not re.findall(r"https?:|//[a-z]|@import|url\(", text)
    assert set(re.findall(r'(?:src|href)="([^#"][^"]*)"', text)) <= {"data:,", *(f"assets/{one}" for one in OWN)}
    # Relative, so that they are below the path of the page, to which alone the cookie is sent.
    assert not re.findall(r'["`]/(?:api|feed|log|report|assets)\b', text)
    for imported in re.findall(r'from "([^"]*)"', text):
        assert Path(imported).as_posix() in read_assets(), imported


@pytest.mark.parametrize("name", sorted(MODULES))
def test_object_data_is_only_set_as_text(name: str) -> None:
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|srcdoc|dangerously|createPolicy"
    assert not re.findall(markup + r"|eval\(|Function\(|\bon[a-z]+=", MODULES[name])


@pytest.mark.parametrize("name", sorted(MODULES))
def test_links_stay_on_the_page(name: str) -> None:
    fixed = re.findall(r'href="([^"]*)"', MODULES[name])
    assert all(one.startswith("#") for one in fixed), fixed
    built = re.findall(r"href=\$\{([^}]*)", MODULES[name])
    assert all(re.match(r"to[A-Z]\w+\(|`#/", one) for one in built), built


def test_only_the_link_to_a_report_leaves_the_page_for_a_number() -> None:
    made = dict(re.findall(r'export const (to[A-Z]\w+) = \([^)]*\) => ["`]([^"`]*)', MODULES["links.js"]))
    assert {name for name, start in made.items() if not start.startswith("#/")} == {"toReport"}
    assert made["toReport"] == "report?number=${Number(number)}"
    assert all(
        'target="_blank" rel="noopener noreferrer"' in one
        for one in re.findall(r"<a href=\$\{toReport[^>]*>", MODULES["runs.js"])
    )


def test_the_page_respects_colour_scheme_and_reduced_motion() -> None:
    assert "prefers-color-scheme: dark" in OWN["style.css"]
    assert "prefers-reduced-motion" in OWN["style.css"]


def test_the_libraries_are_those_that_were_copied() -> None:
    vendor = FOLDER / "vendor"
    lines = (vendor / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert sorted(sums) == sorted(one.name for one in vendor.iterdir() if one.name != "SHA256SUMS")
    for name, digest in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, f"{name}: run make dashboard"
