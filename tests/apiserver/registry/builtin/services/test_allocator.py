from levelset.apiserver.registry.builtin.services.allocator import Allocator


def test_a_value_is_free_until_it_is_allocated_and_after_its_release() -> None:
    ports: Allocator[int] = Allocator()
    assert ports.is_free(1)
    ports.update([], [1, 2], "a")
    assert (ports.is_free(1), ports.is_free(1, "b"), ports.is_free(1, "a")) == (False, False, True)
    ports.update([1, 2], [2], "a")
    assert (ports.is_free(1), ports.is_free(2)) == (True, False)


def test_a_reserved_value_is_free_only_for_its_owner_until_the_last_reservation_ends() -> None:
    ports: Allocator[int] = Allocator()
    first, second = ports.reserve([1], "a"), ports.reserve([1], "a")
    first()
    assert (ports.is_free(1), ports.is_free(1, "b"), ports.is_free(1, "a")) == (False, False, True)
    second()
    assert ports.is_free(1)


def test_a_value_that_two_owners_reserve_is_free_for_neither() -> None:
    ports: Allocator[int] = Allocator()
    release = ports.reserve([1], "a")
    ports.reserve([1], "b")
    assert not ports.is_free(1, "a")
    release()
    assert (ports.is_free(1, "a"), ports.is_free(1, "b")) == (False, True)
