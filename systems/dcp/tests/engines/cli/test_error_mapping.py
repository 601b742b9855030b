"""Error messages of the tools map to EngineErrors; the samples are real messages."""

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
from levelset_dcp.engines.cli.error_mapping import map_error, may_be_container_error
from systems.dcp.tests.engines.cli.fake_output import ERROR_MESSAGES

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


@pytest.mark.parametrize(("dialect", "what"), ERROR_MESSAGES)
def test_common_error_messages_map_to_their_errors(dialect: str, what: str) -> None:
    error = map_error("try", 1, ERROR_MESSAGES[dialect, what].format("web"))
    assert type(error) is EXPECTED[what]
    assert str(error).startswith("try: ")


@pytest.mark.parametrize(("stderr", "expected"), MORE)
def test_other_error_messages_map_to_their_errors(stderr: str, expected: type[EngineError]) -> None:
    assert type(map_error("try", 1, stderr)) is expected


def test_the_message_is_that_of_the_error_without_earlier_warnings() -> None:
    stderr = 'time="2026" level=warning msg="port is already allocated"\nError: it is full\nSee \'docker --help\'.'
    error = map_error("create web", 125, stderr)
    assert str(error) == "create web: Error: it is full"


def test_an_error_of_exec_is_distinguished_from_a_failed_command() -> None:
    assert may_be_container_error("Error response from daemon: container 4c0 is not running\n")
    assert may_be_container_error(
        "Error: can only create exec sessions on running containers: container state improper"
    )
    assert not may_be_container_error("cat: /x: No such file or directory\n")


def test_the_reason_of_a_failed_start_is_shown_and_not_the_summary_of_docker_after_it() -> None:
    reason = 'Error response from daemon: failed to create task: exec: "/no/such": no such file or directory: unknown'
    for prefix in ("Error: ", ""):
        error = map_error("start the container a1", 1, f"{reason}\n{prefix}failed to start containers: a1\n")
        assert str(error) == f"start the container a1: {reason}"
    assert str(map_error("start it", 1, "Error: failed to start containers: a1\n")).endswith("containers: a1")
