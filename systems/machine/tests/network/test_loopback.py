"""Control planes of one machine get different blocks of the loopback network, and Pods different addresses."""

import socket
from ipaddress import IPv4Network

import pytest

from levelset_machine.network.loopback import AddressPool, NoAddress, claim_block


def test_two_blocks_are_different_and_a_closed_one_can_be_claimed_again() -> None:
    with claim_block() as one:
        with claim_block() as two:
            assert one.network != two.network
        with claim_block() as three:
            assert three.network == two.network


def test_a_block_has_its_services_in_the_lower_half_and_its_pods_in_the_upper() -> None:
    with claim_block() as block:
        second = str(block.network).split(".")[1]
        assert 96 <= int(second) <= 127
        assert block.services == f"127.{second}.0.0/17"
        assert str(block.pods) == f"127.{second}.128.0/17"


def test_closing_a_block_is_idempotent() -> None:
    block = claim_block()
    block.close()
    block.close()


def test_when_all_blocks_are_in_use_the_error_names_the_remedy() -> None:
    with claim_block() as block:
        second = int(str(block.network).split(".")[1])
        with pytest.raises(NoAddress, match="stop another control plane"):
            claim_block(first=second, last=second)


def test_pods_on_different_addresses_listen_on_the_same_port() -> None:
    with claim_block() as block, socket.socket() as one, socket.socket() as two:
        one.bind((block.pods.allocate(), 0))
        two.bind((block.pods.allocate(), one.getsockname()[1]))


def small() -> AddressPool:
    return AddressPool(IPv4Network("127.120.128.0/29"))


def test_the_smallest_free_address_is_allocated_first_and_the_ends_never() -> None:
    pods = small()
    assert [pods.allocate() for _ in range(3)] == ["127.120.128.1", "127.120.128.2", "127.120.128.3"]
    pods.free("127.120.128.2")
    pods.free("127.120.128.2")
    assert pods.allocate() == "127.120.128.2"
    assert [pods.allocate() for _ in range(3)][-1] == "127.120.128.6"
    with pytest.raises(NoAddress, match="all 6 addresses"):
        pods.allocate()


def test_an_address_from_an_earlier_run_can_be_taken_once() -> None:
    pods = small()
    assert pods.take("127.120.128.3")
    assert not pods.take("127.120.128.3")
    assert [pods.allocate() for _ in range(3)] == ["127.120.128.1", "127.120.128.2", "127.120.128.4"]
    assert pods.taken == {f"127.120.128.{one}" for one in (1, 2, 3, 4)}


@pytest.mark.parametrize("other", ["127.120.128.0", "127.120.128.7", "127.1.1.1", "::1", "nonsense", ""])
def test_an_address_outside_the_network_is_never_taken(other: str) -> None:
    pods = small()
    assert not pods.take(other)
    assert other not in pods
    pods.free(other)


def test_an_address_that_the_machine_does_not_have_is_an_error_and_stays_free() -> None:
    pods = AddressPool(IPv4Network("192.0.2.0/29"))
    for _ in range(2):
        with pytest.raises(NoAddress, match=r"cannot bind 192\.0\.2\.1"):
            pods.allocate()
