"""Every stop of the tour shows what its title says, with the real parts."""

import json
import re
import subprocess
import sys
from functools import cache

import pytest

from levelset.cli.tour import STOPS, Greeting, GreetingSpec, Stop
from tests.project.files import ROOT


@cache
def lines(word: str) -> list[str]:
    (found,) = [stop for stop in STOPS if word in stop.title]
    return found.lines()


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.title)
def test_a_stop_is_a_few_short_lines(stop: Stop) -> None:
    (word,) = [word for word in ("repairs", "virtual time", "explorer", "server validates") if word in stop.title]
    assert 2 <= len(lines(word)) <= 6
    assert all(len(line) <= 140 for line in lines(word))


def test_the_kind_of_the_tour_is_a_normal_kind() -> None:
    greeting = Greeting.new("hello", GreetingSpec(text="Hello!"), namespace="default")
    assert str(greeting.ref) == "Greeting/default/hello"


def test_the_controller_repairs_a_change_and_a_deletion() -> None:
    shown = [line.split()[0] for line in lines("repairs")]
    assert shown == ["create", "applied", "outside", "repaired", "outside", "repaired"]
    assert all('ConfigMap/hello with text "Hello!"' in line for line in lines("repairs") if line.startswith("repaired"))


def test_a_day_passes_in_virtual_time() -> None:
    found = re.match(r"passed   (\d+) reconciles in a day", lines("virtual time")[-1])
    assert found
    assert 288 <= int(found[1]) <= 300  # every five minutes, and a few for the changes


def test_the_planted_bug_is_found_and_the_repairing_controller_survives() -> None:
    broken, why, fine = lines("explorer")
    assert broken.startswith("forgetful: breaks with this fault: crash after create ConfigMap/default/hello-")
    assert why.strip() == "a second ConfigMap"
    assert re.fullmatch(r"repairing: \d+ runs, a fault in each, no failure", fine)


def test_the_server_answers_with_status_codes() -> None:
    first, *answers = lines("server validates")
    assert first.startswith("serves   https://127.0.0.1:")
    assert [line.split()[0] for line in answers] == ["201", "409", "422"]
    assert "should be at least 1 chars long" in answers[-1]


def test_the_tour_as_json_needs_no_package_of_the_tests() -> None:
    # `make tour` installs what running needs only.
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pytest', 'hypothesis', 'blockbuster', 'packaging'])); "
        "sys.argv = ['levelset', 'tour', '-o', 'json']; import levelset.cli; levelset.cli.main()"
    )
    outcome = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    shown = json.loads(outcome.stdout)
    assert [stop["title"] for stop in shown] == [stop.title for stop in STOPS]
    assert all(stop["lines"] for stop in shown)


def test_the_last_line_names_a_file_that_exists_where_the_command_was_typed() -> None:
    code = "import levelset.cli.tour as tour; tour.STOPS = (); tour.tour([])"
    last = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert last.startswith("This was src/levelset/cli/tour.py. Next, a project of your own")
