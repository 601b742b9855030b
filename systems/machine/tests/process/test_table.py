"""The process table: reading it, the members of a run, and signals by pid and start time."""

import os
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from levelset_machine import Identity, identity_of, is_alive
from levelset_machine.process.marker import MARKER
from levelset_machine.process.table import (
    Entry,
    alive_keys,
    parse_ps,
    read_entry,
    read_ps,
    read_table,
    run_members,
    send_signal,
)
from systems.machine.tests.support import cat


def entry(
    pid: int, *, parent: int = 1, session: int = 1, started: int = 0, state: str = "S", marker: str = ""
) -> Entry:
    return Entry(pid, started or pid, parent, session, state, marker)


def members(table: list[Entry], roots: dict[int, int], marker: str | None = None) -> set[int]:
    return {one.pid for one in run_members(table, roots, None if marker is None else marker.__eq__)}


def test_the_current_process_is_in_the_table() -> None:
    me = read_entry(os.getpid())
    assert me is not None
    assert (me.pid, me.parent, me.session, me.is_alive) == (os.getpid(), os.getppid(), os.getsid(0), True)
    assert (me.pid, me.started) in alive_keys(read_table())


def test_an_identity_matches_pid_and_start_time() -> None:
    me = identity_of(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(Identity(me.pid, me.started + 1))
    assert identity_of(2**22 + 1) is None


def test_a_zombie_has_an_identity_and_is_not_alive() -> None:
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    ended = identity_of(child.pid)
    assert ended is not None
    assert not is_alive(ended)
    assert child.wait() == 0
    assert identity_of(child.pid) is None


def test_the_marker_is_read_from_the_environment() -> None:
    child = cat(**{"A": "1", MARKER: "abc.7", "Z": "2"})
    seen = read_entry(child.pid, marker=True)
    child.communicate(b"")
    assert seen is not None
    assert seen.marker == "abc.7"


def test_a_program_name_with_parentheses_and_spaces_is_parsed() -> None:
    rename = "open('/proc/self/comm', 'w').write(') R 1 2 (x'); input()"
    child = subprocess.Popen(["python3", "-c", f"print(flush=True); {rename}"], stdin=-1, stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()
    seen = read_entry(child.pid)
    child.communicate(b"\n")
    assert seen is not None
    assert seen.parent == os.getpid()


def test_a_signal_never_reaches_a_later_process_with_the_same_pid() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    identity = identity_of(child.pid)
    assert identity is not None
    assert not send_signal(identity.pid, identity.started - 1, 9)
    assert child.poll() is None
    assert send_signal(identity.pid, identity.started, 9)
    child.communicate()
    assert child.returncode == -9
    assert not send_signal(identity.pid, identity.started, 9)


def test_members_are_the_root_its_session_its_descendants_and_marked_processes() -> None:
    table = [
        entry(10, session=10),
        entry(11, parent=10, session=10),
        entry(12, parent=11, session=12),
        entry(13, parent=1, session=10),
        entry(14, parent=1, session=14, marker="mine"),
        entry(15, parent=14, session=14),
        entry(20, parent=1, session=20, marker="yours"),
    ]
    assert members(table, {10: 10}, "mine") == {10, 11, 12, 13, 14, 15}
    assert members(table, {10: 10}) == {10, 11, 12, 13}


def test_a_reused_pid_has_no_members() -> None:
    table = [entry(10, session=10, started=99), entry(11, parent=10, session=10)]
    assert members(table, {10: 10}) == set()


def test_the_session_of_an_exited_root_is_not_included() -> None:
    assert members([entry(11, session=10), entry(12, session=10, marker="mine")], {10: 10}, "mine") == {12}


def test_zombies_are_not_alive() -> None:
    assert alive_keys([entry(10), entry(11, state="Z")]) == {(10, 10)}


TABLES = st.lists(
    st.builds(entry, st.integers(1, 12), parent=st.integers(0, 12), session=st.integers(0, 12)),
    unique_by=lambda one: one.pid,
)


@given(TABLES, st.integers(1, 12))
def test_members_include_all_children_of_each_member(table: list[Entry], root: int) -> None:
    family = members(table, {root: root})
    assert {one.pid for one in table if one.parent in family} <= family
    assert all(one.pid == root or one.session == root or one.parent in family for one in table if one.pid in family)


def test_the_output_of_ps_is_parsed() -> None:
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
def test_any_text_is_parsed_or_skipped(text: str) -> None:
    assert isinstance(parse_ps(text), list)


def test_ps_lists_the_same_processes_if_it_is_installed() -> None:
    if not Path("/bin/ps").exists():
        assert read_ps() == []
        return
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True)
    [one] = read_ps(child.pid)
    all_processes = read_ps()
    child.communicate(b"")
    assert (one.pid, one.parent, one.session, one.is_alive) == (child.pid, os.getpid(), child.pid, True)
    assert (one.pid, one.parent, one.session) in {(each.pid, each.parent, each.session) for each in all_processes}
    assert read_ps(child.pid) == []
