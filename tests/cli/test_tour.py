"""Every stop of the tour shows what its title says."""

import subprocess
import sys
import time

import pytest

from levelset.cli.tour import STOPS, Stop, Website, WebsiteSpec


def lines(word: str) -> str:
    (found,) = [stop for stop in STOPS if word in stop.title]
    return "\n".join(found.lines())


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.title)
def test_a_stop_is_two_or_three_short_lines(stop: Stop) -> None:
    shown = list(stop.lines())
    assert 2 <= len(shown) <= 3
    assert all(len(line) <= 110 for line in shown)


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.title)
def test_a_stop_is_deterministic(stop: Stop) -> None:
    assert list(stop.lines()) == list(stop.lines())


def test_the_kind_of_the_tour_is_a_normal_kind() -> None:
    site = Website.new("blog", WebsiteSpec(image="blog:1"), namespace="default")
    assert str(site.ref) == "Website/default/blog"


def test_the_unknown_field_is_preserved() -> None:
    assert '"canary":{"weight":5}' in lines("does not define")


def test_a_wrong_selector_names_the_position() -> None:
    assert "position 15" in lines("Selectors")


def test_quantities_add_up() -> None:
    assert "= 2Gi" in lines("Quantities")
    assert "False" not in lines("Quantities")


def test_the_patch_is_smaller_than_the_object() -> None:
    assert 'patch    {"image":"blog:2"}' in lines("merge patch")


def test_the_conflict_names_the_manager_and_the_field() -> None:
    assert "may not set .spec.replicas: pipeline owns it" in lines("Server-side apply")
    assert '{"replicas":5}' in lines("Server-side apply")


def test_the_whole_tour_takes_less_than_a_second_without_a_terminal() -> None:
    def once() -> float:
        start = time.perf_counter()
        code = "import sys; sys.argv = ['levelset', 'tour']; import levelset.cli; levelset.cli.main()"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return time.perf_counter() - start

    # The best of three: a busy machine makes a run slower, never faster.
    assert min(once() for _ in range(3)) < 1
