from levelset.apiserver.registry.builtin.service_allocators import Allotment


def test_a_value_is_free_until_somebody_has_it_and_again_after() -> None:
    ports: Allotment[int] = Allotment()
    assert ports.is_free(1)
    ports.move([], [1, 2], "a")
    assert (ports.is_free(1), ports.is_free(1, "b"), ports.is_free(1, "a")) == (False, False, True)
    ports.move([1, 2], [2], "a")
    assert (ports.is_free(1), ports.is_free(2)) == (True, False)


def test_a_claimed_value_is_free_for_its_owner_alone_until_the_last_claim_is_over() -> None:
    ports: Allotment[int] = Allotment()
    first, second = ports.claim([1], "a"), ports.claim([1], "a")
    first()
    assert (ports.is_free(1), ports.is_free(1, "b"), ports.is_free(1, "a")) == (False, False, True)
    second()
    assert ports.is_free(1)


def test_a_value_that_two_claim_is_free_for_neither() -> None:
    ports: Allotment[int] = Allotment()
    release = ports.claim([1], "a")
    ports.claim([1], "b")
    assert not ports.is_free(1, "a")
    release()
    assert (ports.is_free(1, "a"), ports.is_free(1, "b")) == (False, True)
