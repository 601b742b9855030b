"""A free port is handed out once within two minutes, across processes of the user."""

import socket
from pathlib import Path

import pytest

from levelset_machine.network.ports import (
    NoPort,
    Reservation,
    Reservations,
    free_port,
    read_reservations,
    write_reservations,
)

HOME = "127.0.0.1"


@pytest.mark.parametrize("udp", [False, True])
def test_a_free_port_can_be_listened_on(udp: bool) -> None:
    with socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as listening:
        listening.bind((HOME, free_port(udp=udp)))


async def test_free_port_does_not_block_the_event_loop() -> None:
    assert free_port() != free_port()


def test_many_ports_are_all_different(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path / "ports")
    found = [reservations.find(HOME) for _ in range(200)]
    assert len(set(found)) == 200


def test_reservations_are_shared_in_a_file_that_only_the_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "ports"
    port = Reservations(file).find(HOME, now=1000.0)
    assert read_reservations(file.read_text()) == [Reservation(HOME, port, 1120.0)]
    assert file.stat().st_mode & 0o777 == 0o600


def test_expired_reservations_are_removed_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ports"
    file.write_text(write_reservations([Reservation(HOME, 5, 900.0), Reservation(HOME, 6, 1001.0)], now=0.0))
    Reservations(file).find(HOME, now=1000.0)
    assert [one.port for one in read_reservations(file.read_text())][:-1] == [6]


def test_a_port_that_another_process_has_reserved_is_not_handed_out(tmp_path: Path) -> None:
    file = tmp_path / "ports"
    # Linux offers odd ports for port 0: half of those are reserved.
    reserved = [Reservation(HOME, port, 2000.0) for port in range(1025, 65536, 4)]
    file.write_text(write_reservations(reserved, now=1000.0))
    reservations = Reservations(file)
    assert all(reservations.find(HOME, now=1000.0) % 4 != 1 for _ in range(4))
    assert len(read_reservations(file.read_text())) == len(reserved) + 4


def test_malformed_lines_are_skipped() -> None:
    assert read_reservations("x\n127.0.0.1 5 7.5\n127.0.0.1 five 7.5\n\n\0\n") == [Reservation(HOME, 5, 7.5)]


def test_a_file_that_is_a_symlink_or_cannot_be_opened_is_not_used(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "ports").symlink_to(target)
    assert Reservations(tmp_path / "ports").find(HOME) > 0
    assert target.read_text() == "precious"
    assert Reservations(tmp_path / "no" / "folder").find(HOME) > 0
    assert Reservations(None).find(HOME) > 0


def test_an_address_that_the_machine_does_not_have_is_an_error() -> None:
    with pytest.raises(NoPort, match=r"192\.0\.2\.1"):
        free_port("192.0.2.1")
