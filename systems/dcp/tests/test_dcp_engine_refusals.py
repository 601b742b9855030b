"""What the tools say when they refuse something becomes the right error; the sentences are theirs."""

import pytest

from levelset_dcp.engines import (
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineRefused,
    ObjectInUse,
    RuntimeNotHealthy,
)
from levelset_dcp.engines.refusals import explain, is_about_the_container
from systems.dcp.tests.engine_fakeshapes import SAYINGS

EXPECTED = {
    "down": RuntimeNotHealthy,
    "containers": EngineNotFound,
    "networks": EngineNotFound,
    "volumes": EngineNotFound,
    "images": EngineNotFound,
    "no image": EngineNotFound,
    "taken": EngineAlreadyExists,
    "running": ObjectInUse,
    "not running": EngineRefused,
    "network taken": EngineAlreadyExists,
    "network used": ObjectInUse,
    "connected": EngineAlreadyExists,
    "not connected": EngineNotFound,
    "volume used": ObjectInUse,
    "port": CouldNotAllocate,
}
MORE: list[tuple[str, type[EngineError]]] = [
    (
        "error during connect: Get http://%2F%2F.%2Fpipe%2Fdocker_engine: The system cannot find the file",
        RuntimeNotHealthy,
    ),
    (
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        RuntimeNotHealthy,
    ),
    ("Error response from daemon: all predefined address pools have been fully subnetted", CouldNotAllocate),
    ("Error: could not find free subnet from subnet pools", CouldNotAllocate),
    ("Error response from daemon: Ports are not available: exposing port TCP 127.0.0.1:80", CouldNotAllocate),
    ("Error: No such object: web", EngineNotFound),
    (
        (
            "Unable to find image 'x:1' locally\n"
            "Error response from daemon: pull access denied for x, repository does not exist or may require "
            "'docker login'\n\nRun 'docker create --help' for more information"
        ),
        EngineNotFound,
    ),
    ("Error response from daemon: manifest for redis:99 not found: manifest unknown", EngineNotFound),
    ("Error: initializing source docker://localhost/x:1: pinging container registry localhost: refused", EngineRefused),
    ('Error: inspecting object: no such container "zz"', EngineNotFound),
    ("unknown flag: --nonsense\nSee 'docker create --help'.", EngineRefused),
    ("", EngineRefused),
]


@pytest.mark.parametrize(("dialect", "what"), SAYINGS)
def test_the_usual_refusals_are_told_apart(dialect: str, what: str) -> None:
    error = explain("try", 1, SAYINGS[dialect, what].format("web"))
    assert type(error) is EXPECTED[what]
    assert str(error).startswith("try: ")


@pytest.mark.parametrize(("said", "expected"), MORE)
def test_other_refusals_are_told_apart(said: str, expected: type[EngineError]) -> None:
    assert type(explain("try", 1, said)) is expected


def test_the_words_are_those_of_the_error_and_not_of_warnings_before_it() -> None:
    said = 'time="2026" level=warning msg="port is already allocated"\nError: it is full\nSee \'docker --help\'.'
    error = explain("create web", 125, said)
    assert str(error) == "create web: Error: it is full"


def test_a_command_that_was_not_run_is_told_from_one_that_has_failed() -> None:
    assert is_about_the_container("Error response from daemon: container 4c0 is not running\n")
    assert is_about_the_container(
        "Error: can only create exec sessions on running containers: container state improper"
    )
    assert not is_about_the_container("cat: /x: No such file or directory\n")
