"""Our search beside porcupine, the checker that etcd uses: the same verdict on every history."""

import json
import random
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.robustness.linearizability import is_linearizable
from tests.robustness.test_linearizability import BAD, GOOD, random_history
from tests.robustness.test_random_clients import play_in_memory

pytestmark = [pytest.mark.robustness, pytest.mark.timeout(600), pytest.mark.usefixtures("file_access")]

SOURCE = Path(__file__).with_name("porcupine")


@pytest.fixture(scope="module")
def porcupine(tmp_path_factory):
    """The program, built; its verdicts on histories."""
    program = tmp_path_factory.mktemp("porcupine") / "porcupine"
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go, to build porcupine")
    built = subprocess.run([go, "build", "-o", program, "."], cwd=SOURCE, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"porcupine cannot be built here: {built.stderr}")

    def judge(histories):
        given = json.dumps([[asdict(one) for one in history] for history in histories])
        done = subprocess.run([program], input=given, capture_output=True, text=True, check=True, timeout=300)
        return json.loads(done.stdout)

    return judge


def test_both_agree_on_known_histories(porcupine):
    assert porcupine(GOOD.values()) == [True] * len(GOOD)
    assert porcupine(BAD.values()) == [False] * len(BAD)


def test_both_agree_on_small_random_histories(porcupine):
    histories = [random_history(random.Random(f"porcupine {seed}")) for seed in range(20_000)]
    verdicts = porcupine(histories)
    assert verdicts == list(map(is_linearizable, histories))
    assert 2_000 < sum(verdicts) < 18_000


def test_both_agree_on_histories_of_the_server_and_on_falsified_ones(porcupine):
    histories = []
    for seed in range(40):
        dice = random.Random(seed)
        operations = play_in_memory(seed, operations=40)[0].operations
        for key in {one.key for one in operations}:
            history = [one for one in operations if one.key == key]
            histories += [history, falsified(history, dice), falsified(history, dice)]
    verdicts = porcupine(histories)
    assert verdicts == list(map(is_linearizable, histories))
    assert all(verdicts[::3])
    assert sum(verdicts) < len(verdicts) * 0.8


def falsified(history, dice):
    """The history with one other result."""
    place = dice.randrange(len(history))
    one = history[place]
    other = dice.choice([two for two in history if two.verb == one.verb])
    changed = replace(one, outcome=other.outcome, value=other.value, revision=other.revision, expected=other.expected)
    return [*history[:place], changed, *history[place + 1 :]]
