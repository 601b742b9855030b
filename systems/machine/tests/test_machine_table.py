"""Who there is on this machine, and who belongs to whom."""

import os
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from levelset_machine import Identity, identity_of, is_alive
from levelset_machine.entries import MARKER, Entry
from levelset_machine.signalling import send_signal
from levelset_machine.table import read_entry, read_table
from levelset_machine.table_ps import parse_ps, read_ps
from levelset_machine.trees import families, living
from systems.machine.tests.machines import cat


def entry(
    pid: int, *, parent: int = 1, session: int = 1, started: int = 0, state: str = "S", marker: str = ""
) -> Entry:
    return Entry(pid, started or pid, parent, session, state, marker)


def found(table: list[Entry], roots: dict[int, int], marker: str | None = None) -> set[int]:
    return {one.pid for one in families(table, roots, None if marker is None else marker.__eq__)}


def test_this_very_process_is_in_the_table() -> None:
    me = read_entry(os.getpid())
    assert me is not None
    assert (me.pid, me.parent, me.session, me.is_alive) == (os.getpid(), os.getppid(), os.getsid(0), True)
    assert (me.pid, me.started) in living(read_table())


def test_a_process_is_itself_and_no_other() -> None:
    me = identity_of(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(Identity(me.pid, me.started + 1))
    assert identity_of(2**22 + 1) is None


def test_a_process_that_ended_but_was_not_collected_is_known_and_not_alive() -> None:
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    ended = identity_of(child.pid)
    assert ended is not None
    assert not is_alive(ended)
    assert child.wait() == 0
    assert identity_of(child.pid) is None


def test_the_marker_of_a_process_is_that_of_its_environment() -> None:
    child = cat(**{"A": "1", MARKER: "abc.7", "Z": "2"})
    seen = read_entry(child.pid, marker=True)
    child.communicate(b"")
    assert seen is not None
    assert seen.marker == "abc.7"


def test_a_name_with_parentheses_and_spaces_is_no_trouble() -> None:
    rename = "open('/proc/self/comm', 'w').write(') R 1 2 (x'); input()"
    child = subprocess.Popen(["python3", "-c", f"print(flush=True); {rename}"], stdin=-1, stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()
    seen = read_entry(child.pid)
    child.communicate(b"\n")
    assert seen is not None
    assert seen.parent == os.getpid()


def test_a_signal_never_reaches_a_later_process_with_the_same_number() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    identity = identity_of(child.pid)
    assert identity is not None
    assert not send_signal(identity.pid, identity.started - 1, 9)
    assert child.poll() is None
    assert send_signal(identity.pid, identity.started, 9)
    child.communicate()
    assert child.returncode == -9
    assert not send_signal(identity.pid, identity.started, 9)


def test_a_family_is_the_root_its_session_its_descendants_and_the_marked_ones() -> None:
    table = [
        entry(10, session=10),
        entry(11, parent=10, session=10),
        entry(12, parent=11, session=12),
        entry(13, parent=1, session=10),
        entry(14, parent=1, session=14, marker="mine"),
        entry(15, parent=14, session=14),
        entry(20, parent=1, session=20, marker="yours"),
    ]
    assert found(table, {10: 10}, "mine") == {10, 11, 12, 13, 14, 15}
    assert found(table, {10: 10}) == {10, 11, 12, 13}


def test_a_number_that_somebody_else_has_by_now_is_nobodys_family() -> None:
    table = [entry(10, session=10, started=99), entry(11, parent=10, session=10)]
    assert found(table, {10: 10}) == set()


def test_the_session_of_a_process_that_is_gone_is_not_trusted() -> None:
    assert found([entry(11, session=10), entry(12, session=10, marker="mine")], {10: 10}, "mine") == {12}


def test_the_dead_are_not_among_the_living() -> None:
    assert living([entry(10), entry(11, state="Z")]) == {(10, 10)}


TABLES = st.lists(
    st.builds(entry, st.integers(1, 12), parent=st.integers(0, 12), session=st.integers(0, 12)),
    unique_by=lambda one: one.pid,
)


@given(TABLES, st.integers(1, 12))
def test_a_family_holds_with_each_member_all_of_its_children(table: list[Entry], root: int) -> None:
    family = found(table, {root: root})
    assert {one.pid for one in table if one.parent in family} <= family
    assert all(one.pid == root or one.session == root or one.parent in family for one in table if one.pid in family)


def test_what_ps_prints_is_understood_where_the_kernel_shows_no_files() -> None:
    printed = """
        1     0     1 Ss   Sun Nov 15 21:31:05 2026
     7001     1  7001 Z+   Mon Nov 16 06:10:01 2026
    no such line
        2     0     1 S    Sun Nob 15 21:31:05 2026
    """
    first, second = parse_ps(printed)
    assert (first.pid, first.parent, first.session, first.is_alive) == (1, 0, 1, True)
    assert (second.pid, second.parent, second.session, second.is_alive) == (7001, 1, 7001, False)
    assert second.started > first.started


@given(st.text())
def test_whatever_ps_prints_is_understood_or_passed_over(text: str) -> None:
    assert isinstance(parse_ps(text), list)


def test_ps_tells_of_the_same_processes_if_it_is_there() -> None:
    if not Path("/bin/ps").exists():
        assert read_ps() == []
        return
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True)
    [one] = read_ps(child.pid)
    everybody = read_ps()
    child.communicate(b"")
    assert (one.pid, one.parent, one.session, one.is_alive) == (child.pid, os.getpid(), child.pid, True)
    assert (one.pid, one.parent, one.session) in {(each.pid, each.parent, each.session) for each in everybody}
    assert read_ps(child.pid) == []
