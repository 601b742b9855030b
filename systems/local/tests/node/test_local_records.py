"""What is known of Pods survives the process that knew it."""

from dataclasses import replace
from pathlib import Path

from levelset_local.node import FolderRecords, PodKnown
from levelset_local.node.known import ContainerKnown, News
from systems.local.tests.node.test_local_plan import end, live

WEB = PodKnown(
    uid="u1",
    name="web",
    namespace="shop",
    address="127.9.0.1",
    containers=(ContainerKnown(name="web", live=live(is_ready=True), before=end(3), restarts=2),),
)


def records(folder: Path) -> FolderRecords:
    made = FolderRecords(folder / "records")
    made.load()
    return made


def test_a_record_is_found_by_who_comes_next(tmp_path: Path) -> None:
    first = records(tmp_path)
    first.save(WEB)
    first.save(replace(WEB, uid="u2"))
    first.remove("u2")
    second = records(tmp_path)
    assert list(second.all()) == [WEB]
    assert second.find("u1") == WEB
    assert second.of_name("shop", "web") == [WEB]
    assert second.of_name("shop", "other") == []


def test_records_are_for_nobody_else_and_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    records(tmp_path).save(replace(WEB, news=(News(reason="a", message="b"),)))
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "records").iterdir()] == [0o600]
    (tmp_path / "records" / "u3.json").write_text("{")
    (tmp_path / "records" / "u4.json").write_bytes((tmp_path / "records" / "u1.json").read_bytes())
    assert [one.uid for one in records(tmp_path).all()] == ["u1"]


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    records(tmp_path).remove("none")
