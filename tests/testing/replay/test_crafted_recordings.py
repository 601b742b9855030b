"""Recordings that no levelset has written, with right checksums: a replay ends with a result or an error of its own."""

import zlib
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from levelset.errors import BadObject, LevelsetError
from levelset.runtime.recording.entries import rows_in
from levelset.runtime.recording.recording_file import BlockWriter, read_blocks
from levelset.testing.replay import replay
from levelset.testing.replay.recorded_server import error_of
from tests.testing.replay import operators
from tests.testing.replay.operators import create_and_update, deployment

VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**40,
    "",
    "../x",
    b"{",
    b"null",
    b'{"metadata":1}',
    [],
    [[]],
    {},
    {"a": 1},
    1.5,
)
_SCOPE, _CONTROLLER = 1, 16


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    path = tmp_path_factory.mktemp("recording") / "run"
    operators.record(path, deployment(), use=create_and_update)
    return [entry for payload in read_blocks(path) for entry in rows_in(msgspec.msgpack.decode(payload))]


def craft(path: Path, entries: list[Any]) -> Path:
    writer = BlockWriter(path)
    writer.append(msgspec.msgpack.encode(entries), compress=False)
    writer.close()
    return path


def mutated(value: Any, random: Random) -> Any:
    """The value with another one somewhere inside."""
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [mutated(one, random) if number == at else one for number, one in enumerate(value)]
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        return {**value, name: mutated(value[name], random)}
    return random.choice(VALUES)


def rearranged(entries: list[Any], random: Random) -> list[Any]:
    """The entries with one removed, repeated, moved or changed."""
    found, at = list(entries), random.randrange(len(entries))
    match random.randrange(4):
        case 0:
            del found[at]
        case 1:
            found.insert(at, random.choice(entries))
        case 2:
            found.insert(random.randrange(len(entries)), found.pop(at))
        case _:
            found[at] = mutated(found[at], random)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_changed_in_a_recording_its_replay_ends_in_order(
    seed: int, entries: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random, ended = Random(seed), 0
    for _ in range(12):
        caplog.clear()
        try:
            replay(craft(tmp_path / "run", rearranged(entries, random)), [deployment()])
        except LevelsetError:
            ended += 1
    assert ended < 12


@pytest.mark.parametrize(("tag", "message"), [(_SCOPE, "no informer"), (_CONTROLLER, "no controller|are not given")])
def test_entries_that_belong_to_nothing_are_named(tag: int, message: str, entries: list[Any], tmp_path: Path) -> None:
    path = craft(tmp_path / "run", [entry for entry in entries if entry[0] != tag])
    with pytest.raises(LevelsetError, match=message):
        replay(path, [deployment()])


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"type":1,"message":"","attributes":{}}', zlib.compress(b"")])
def test_an_error_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(BadObject, match="an error that cannot be read"):
        error_of(body)


@pytest.mark.parametrize("name", ["exit", "SystemExit", "ExceptionGroup", "open", "ValueError"])
def test_an_error_of_a_recording_is_nothing_but_an_exception(name: str) -> None:
    attributes = {"__class__": "x", "__dict__": {}, "args": 1}
    tree = {"module": "builtins", "type": name, "message": "no", "attributes": attributes}
    error = error_of(msgspec.json.encode(tree))
    assert type(error) is (ValueError if name == "ValueError" else LevelsetError)
    assert error.args == ("no",)
