"""The selection of an agent's version among those of its pack."""

import pytest

from levelset import replace
from levelset_omnia import PromptPack, PromptPackStatus
from levelset_omnia.kinds import PromptPackRef, Revision
from levelset_omnia.promptpack import Choice, pack_name, select, superseder
from systems.omnia.tests.support import pack

__all__: list[str] = []


def active(name: str, version: str, *, of: str | None = "support", **status: object) -> PromptPack:
    made = pack(name, version, of=of)
    revision = Revision(version=version, config_map="prompts", hash="1")
    given = {"phase": "Active", "active": revision, "active_version": version, **status}
    return replace(made, status=PromptPackStatus(**given))  # type: ignore[arg-type]


def in_canary(name: str, version: str, weight: int = 30, *, of: str | None = "support") -> PromptPack:
    revision = Revision(version=version, config_map="prompts", hash="1")
    status = PromptPackStatus(phase="Canary", canary=revision, canary_version=version, canary_weight=weight)
    return replace(pack(name, version, of=of), status=status)


def selected(
    *packs: PromptPack, version: str | None = None, track: str = "stable"
) -> tuple[str, str | None, int] | None:
    found: Choice | None = select(packs, PromptPackRef(name="support", version=version, track=track))
    if found is None:
        return None
    candidate = None if found.candidate is None else found.candidate.revision.version
    return found.stable.revision.version, candidate, found.weight


def test_the_pack_name_is_the_label_or_the_object_name() -> None:
    assert (pack_name(pack("a", of="b")), pack_name(pack("a"))) == ("b", "a")


def test_without_packs_no_version_is_selected() -> None:
    assert selected() is None


def test_the_newest_version_of_the_track_is_selected() -> None:
    packs = active("a", "1.9.0"), active("b", "1.10.0"), active("c", "2.0.0-rc.1")
    assert selected(*packs) == ("1.10.0", None, 0)
    assert selected(*packs, track="prerelease") == ("2.0.0-rc.1", None, 0)


def test_labelled_prereleases_are_not_selected_on_the_stable_track() -> None:
    assert selected(active("a", "2.0.0-rc.1")) is None
    assert selected(active("support", "2.0.0-rc.1", of=None)) == ("2.0.0-rc.1", None, 0)


def test_a_pinned_version_is_selected_even_if_others_are_newer() -> None:
    packs = active("a", "1.0.0", phase="Superseded"), active("b", "2.0.0"), in_canary("c", "3.0.0")
    assert selected(*packs, version="v1.0.0") == ("1.0.0", None, 0)
    assert selected(*packs, version="3.0.0") == ("3.0.0", None, 0)
    assert selected(*packs, version="4.0.0") is None


def test_a_canary_gets_its_share_if_it_is_newer() -> None:
    assert selected(active("a", "1.0.0"), in_canary("b", "2.0.0", 40)) == ("1.0.0", "2.0.0", 40)
    assert selected(active("a", "3.0.0"), in_canary("b", "2.0.0", 40)) == ("3.0.0", None, 0)


def test_within_one_object_an_older_version_may_be_a_canary() -> None:
    one = active("support", "2.0.0", of=None)
    assert one.status is not None
    older = Revision(version="1.0.0", config_map="prompts", hash="1")
    both = replace(one, status=replace(one.status, phase="Canary", canary=older, canary_weight=20))
    assert selected(both) == ("2.0.0", "1.0.0", 20)


def test_without_an_active_version_the_canary_gets_all_traffic() -> None:
    assert selected(in_canary("a", "1.0.0")) == ("1.0.0", None, 0)


def test_a_pack_that_was_not_reconciled_yet_is_selected_only_if_there_is_no_other() -> None:
    assert selected(pack("a", "1.0.0", of="support")) == ("1.0.0", None, 0)
    assert selected(active("a", "1.0.0"), pack("b", "2.0.0", of="support")) == ("1.0.0", None, 0)
    assert selected(pack("a", source=None)) is None


def test_failed_prompts_are_not_selected_but_others_of_the_same_pack_are() -> None:
    broken = active("a", "2.0.0", phase="Failed")
    assert selected(broken) is None
    assert selected(broken, active("b", "1.0.0")) == ("1.0.0", None, 0)
    elsewhere = replace(broken, spec=pack(source="other", version="3.0.0").spec)
    assert selected(elsewhere) == ("2.0.0", None, 0)


@pytest.mark.parametrize(
    ("mine", "others", "newer"),
    [
        ("1.0.0", ["2.0.0", "3.0.0"], "3.0.0"),
        ("1.0.0", ["2.0.0-rc.1"], None),
        ("2.0.0-rc.1", ["2.0.0"], "2.0.0"),
        ("2.0.0-rc.1", ["2.0.0-rc.2"], "2.0.0-rc.2"),
        ("2.0.0", ["1.0.0", "2.0.0"], None),
    ],
)
def test_a_version_is_superseded_on_every_track_or_not_at_all(mine: str, others: list[str], newer: str | None) -> None:
    versions = [active(f"p{number}", version) for number, version in enumerate(others)]
    assert superseder(pack("me", mine, of="support"), versions) == newer


def test_a_newer_version_that_failed_supersedes_no_other() -> None:
    assert superseder(pack("me", "1.0.0", of="support"), [active("a", "2.0.0", phase="Failed")]) is None
