"""Logs for people and for machines."""

import asyncio
import io
import json
import logging
import re
import sys
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import levelset
from levelset import Client
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.manager.logs import JsonFormatter, PlainFormatter, set_up_logs, style_of

REF = Ref(GroupVersionKind("example.dev", "v1", "Website"), "blog", "default")


def record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("shop", logging.INFO, __file__, 1, message, args, None)
    made.__dict__.update(fields)
    return made


def failed() -> logging.LogRecord:
    try:
        raise ValueError("boom")
    except ValueError as error:
        made = record("could not")
        made.exc_info = (ValueError, error, error.__traceback__)
        return made


def test_a_plain_line_has_time_level_logger_message_and_sorted_fields():
    line = PlainFormatter().format(record("sold %s", "it", ref=REF, price=10, to="Mrs. B", empty=""))
    time, rest = line.split(" ", 1)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", time)
    assert rest == f"INFO    shop: sold it empty='' price=10 ref={REF} to='Mrs. B'"


def test_a_plain_line_never_becomes_two_because_of_a_field():
    assert "\n" not in PlainFormatter().format(record("sold", to="a\nb"))


def test_a_traceback_follows_a_plain_line():
    lines = PlainFormatter().format(failed()).splitlines()
    assert lines[0].endswith("shop: could not")
    assert lines[-1] == "ValueError: boom"


async def reconcile(how: Callable[[], Awaitable[object]]) -> None:
    await how()


def of_call(how: Callable[[], Awaitable[object]]) -> logging.LogRecord:
    """The record of an error that was raised inside levelset, in a call of this program."""
    try:
        asyncio.run(reconcile(how))
    except Exception:  # noqa: BLE001 -- whatever it is
        return logging.LogRecord("shop", logging.WARNING, __file__, 1, "could not", (), sys.exc_info())
    raise AssertionError("it did not fail")


async def fail_inside() -> None:
    async with TaskGroup() as group:
        group.create_task(Client.connect("/nowhere/kubeconfig"))


@pytest.mark.parametrize("formatter", [PlainFormatter, JsonFormatter])
def test_a_traceback_has_the_frames_of_the_program_and_folds_those_of_levelset(
    formatter: type[PlainFormatter | JsonFormatter],
) -> None:
    folded, whole = (formatter(verbose=verbose).format(of_call(fail_inside)) for verbose in (False, True))
    inside = str(Path(levelset.__file__).parent)
    assert "in reconcile" in folded
    assert "in fail_inside" in folded
    assert "/nowhere/kubeconfig" in folded
    assert (inside in folded, inside in whole) == (False, True)
    assert re.search(r"[1-9]\d* frames of levelset are folded; --verbose shows them", folded)
    assert "folded" not in whole


def test_a_traceback_without_a_frame_of_the_program_is_whole() -> None:
    made = of_call(fail_inside)
    assert made.exc_info
    error = made.exc_info[1]
    assert error is not None
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    made.exc_info = type(error), error, error.__traceback__
    text = PlainFormatter().format(made)
    assert str(Path(levelset.__file__).parent) in text
    assert "folded" not in text


def test_a_json_line_has_the_fields_beside_the_usual_ones():
    line = json.loads(JsonFormatter().format(record("sold", ref=REF, price=10, level="high")))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "shop",
        "message": "sold",
        "ref": str(REF),
        "price": 10,
        "field_level": "high",
    }


def test_a_json_line_holds_the_traceback_on_one_line():
    text = JsonFormatter().format(failed())
    assert "\n" not in text
    assert json.loads(text)["error"].endswith("ValueError: boom")


def test_an_unknown_log_style_raises_a_config_error():
    assert [style_of(text) for text in (None, "", "plain", "json")] == ["plain", "plain", "plain", "json"]
    with pytest.raises(ConfigError, match="LEVELSET_LOG='xml'"):
        style_of("xml")


def test_logs_that_are_set_up_twice_are_written_once(monkeypatch):
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setenv("LEVELSET_LOG", "json")
    try:
        set_up_logs("plain", to=first)
        handler = set_up_logs(to=second)
        logging.getLogger("shop").info("sold", extra={"price": 10})
        assert [one for one in root.handlers if one not in before] == [handler]
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["price"] == 10
