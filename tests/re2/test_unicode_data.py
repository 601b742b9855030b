"""Unicode data from Go, compared with Python's, which may be of another version."""

import itertools
import unicodedata

from levelset.re2.unicode_data import canonical, families, ranges_of


def test_characters_that_python_has_known_for_long_are_in_the_same_category() -> None:
    for name in ("Lu", "Ll", "Lt", "Lm", "Nd", "Nl", "Mn", "Pd", "Sc", "Zs", "Cc"):
        ours = {code for low, high in ranges_of(name) or () for code in range(low, high + 1) if code < 0x2000}
        theirs = {code for code in range(0x2000) if unicodedata.category(chr(code)) == name}
        assert len(ours ^ theirs) < 10, name


def test_every_character_has_one_category() -> None:
    spans = sorted(span for letter in "CLMNPSZ" for span in ranges_of(letter) or ())
    assert spans[0][0] == 0
    assert spans[-1][1] == 0x10FFFF
    assert all(high + 1 == low for (_, high), (low, _) in itertools.pairwise(spans))


def test_families_are_the_same_for_all_their_members() -> None:
    assert sorted(families()[ord("k")]) == [ord("K"), ord("k"), 0x212A]
    assert all(families()[other] is family for family in families().values() for other in family)


def test_names_are_found_regardless_of_case_and_separators() -> None:
    assert canonical("old-italic") == canonical("Old_Italic") == canonical("OLD ITALIC") == "Olditalic"
    assert ranges_of("old italic") == ranges_of("Old_Italic")
    assert ranges_of("lowercase-letter") == ranges_of("Ll")
