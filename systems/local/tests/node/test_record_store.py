"""Pod records outlive the manager that stored them."""

from pathlib import Path

from levelset import replace
from levelset_local.node import FileRecordStore, PodRecord
from levelset_local.node.pod_record import ContainerRecord, PendingEvent
from systems.local.tests.node.test_plan import end, live

WEB = PodRecord(
    uid="u1",
    name="web",
    namespace="shop",
    address="127.9.0.1",
    containers=(ContainerRecord(name="web", live=live(is_ready=True), before=end(3), restarts=2),),
)


def records(folder: Path) -> FileRecordStore:
    made = FileRecordStore(folder / "records")
    made.load()
    return made


def test_records_are_found_by_the_next_manager(tmp_path: Path) -> None:
    first = records(tmp_path)
    first.save(WEB)
    first.save(replace(WEB, uid="u2"))
    first.remove("u2")
    second = records(tmp_path)
    assert list(second.all()) == [WEB]
    assert second.find("u1") == WEB
    assert second.of_name("shop", "web") == [WEB]
    assert second.of_name("shop", "other") == []


def test_record_files_are_private_and_invalid_ones_are_ignored(tmp_path: Path) -> None:
    records(tmp_path).save(replace(WEB, pending_events=(PendingEvent(reason="a", message="b"),)))
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "records").iterdir()] == [0o600]
    (tmp_path / "records" / "u3.json").write_text("{")
    (tmp_path / "records" / "u4.json").write_bytes((tmp_path / "records" / "u1.json").read_bytes())
    assert [one.uid for one in records(tmp_path).all()] == ["u1"]


def test_removing_an_unknown_record_is_not_an_error(tmp_path: Path) -> None:
    records(tmp_path).remove("none")
