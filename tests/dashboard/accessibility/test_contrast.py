"""The colours of the dashboard have the contrast of WCAG AA, light and dark, computed from the style itself."""

import re
from itertools import product

import pytest

from levelset.dashboard.page_assets import FOLDER

STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")
TEXTS = ("ink", "soft", "link", "good", "bad", "busy", "key", "cyan")
GROUNDS = ("paper", "panel", "row", "mark")
AA = 4.5
Colour = tuple[float, float, float]


def variables(block: str) -> dict[str, Colour]:
    found = re.findall(r"--([a-z]+): #([0-9a-f]{6})\b", block)
    return {name: (int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)) for name, text in found}


LIGHT, DARK = STYLE.split("@media (prefers-color-scheme: dark)", 1)
THEMES = {"light": variables(LIGHT), "dark": variables(DARK.split("}", 1)[0])}


def luminance(colour: Colour) -> float:
    """The relative luminance of WCAG 2."""
    parts = [one / 255 for one in colour]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: Colour, share: float, ground: Colour) -> Colour:
    """What `color-mix(in srgb, colour share%, transparent)` shows on a ground."""
    red, green, blue = (share * one + (1 - share) * other for one, other in zip(colour, ground, strict=True))
    return red, green, blue


def test_black_on_white_has_the_contrast_of_the_standard() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((0x76, 0x76, 0x76), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)


def test_both_themes_have_the_same_colours() -> None:
    assert THEMES["light"].keys() == THEMES["dark"].keys()
    assert {*TEXTS, *GROUNDS, "line"} == THEMES["light"].keys()


@pytest.mark.parametrize(("theme", "text", "ground"), product(THEMES, TEXTS, GROUNDS))
def test_every_text_can_be_read_on_every_ground(theme: str, text: str, ground: str) -> None:
    colours = THEMES[theme]
    assert contrast(colours[text], colours[ground]) >= AA


@pytest.mark.parametrize(("theme", "share", "name"), [
    (theme, int(share) / 100, name)
    for theme in THEMES
    for name, share in sorted(set(re.findall(r"color-mix\(in srgb, var\(--([a-z]+)\) (\d+)%, transparent\)", STYLE)))
])  # fmt: skip
def test_text_can_be_read_on_a_tinted_ground(theme: str, share: float, name: str) -> None:
    """A weak tint has text of its own colour on it (a difference), a strong one the text of a log."""
    colours = THEMES[theme]
    text = colours[name if share < 0.2 else "ink"]
    assert contrast(text, mixed(colours[name], share, colours["panel"])) >= AA


def test_no_rule_has_a_colour_of_its_own() -> None:
    rules = re.sub(r"--[a-z]+: [^;]+;", "", STYLE)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", rules) == []


@pytest.mark.parametrize("theme", THEMES)
def test_faint_text_of_a_log_can_be_read_and_nothing_else_but_disabled_buttons_is_faint(theme: str) -> None:
    faint = dict(re.findall(r"([a-z.:]+) \{ opacity: ([.0-9]+);", STYLE))
    assert faint.keys() == {"button:disabled", ".faint"}  # the standard exempts what is disabled
    colours = THEMES[theme]
    assert contrast(mixed(colours["ink"], float(faint[".faint"]), colours["panel"]), colours["panel"]) >= AA
