"""What `make bench-runtimes` makes of its figures: tables that name the best, and a lock file without addresses."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.project.files import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of benchmarks/peers by name; they are scripts, and forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS / "peers"), str(BENCHMARKS), *sys.path])
    yield import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(BENCHMARKS)):
            del sys.modules[name]


def figures_of(modules: Any, measure: str, **values: list[float]) -> Any:
    made = modules("figures").Figures()
    for peer, found in values.items():
        for value in found:
            made.add(peer, {measure: value})
    return made


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("storm us", "| **20.0** (10.0 to 30.0) | 40.0 (40.0 to 40.0) | 2.00 |"),  # less is better
        ("noop 1000", "| 20.0 (10.0 to 30.0) | **40.0** (40.0 to 40.0) | 0.50 |"),  # a rate
        ("burst writes", "| 20.0 (10.0 to 30.0) | 40.0 (40.0 to 40.0) |  |"),  # neither
    ],
)
def test_the_table_has_medians_ranges_and_the_best(modules: Any, measure: str, expected: str) -> None:
    figures = figures_of(modules, measure, ours=[20.0, 10.0, 30.0], theirs=[40.0, 40.0])
    assert modules("report").table(figures).splitlines()[2].endswith(expected)


def test_figures_that_are_measured_again_replace_the_old_ones(modules: Any, tmp_path: Path) -> None:
    figures = figures_of(modules, "storm us", ours=[1.0], theirs=[2.0])
    figures.forget(["ours"], ["storm us"])
    figures.add("ours", {"storm us": 3.0})
    modules("figures").Figures.save(tmp_path / "saved.json", {"one": figures})
    saved = modules("figures").Figures.load(tmp_path / "saved.json", ["one", "other"])
    assert saved["one"].values == {"ours": {"storm us": [3.0]}, "theirs": {"storm us": [2.0]}}
    assert saved["other"].values == {}


def test_the_pinned_lock_file_has_no_address_and_gets_that_of_the_machine(modules: Any) -> None:
    other = '[[package]]\nname = "a"\nsource = "registry+here"\nchecksum = "1"\n'
    lock = f'version = 4\n\n{other}\n[[package]]\nname = "peer"\n'
    programs = modules("programs")
    assert "here" not in programs.pin(lock)
    assert programs._with_sources(programs.pin(lock), lock) == lock
    pinned = (BENCHMARKS / "peers" / "rust" / "Cargo.lock.pinned").read_text(encoding="utf-8")
    assert programs.pin(pinned) == pinned


def test_a_table_is_replaced_between_its_marks_only(modules: Any) -> None:
    text = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\nstays\n<!-- end -->\n"
    replace_between = modules("readme").replace_between
    assert replace_between(text, "x", "new\n") == text.replace("old\n", "\nnew\n\n")
    with pytest.raises(SystemExit, match="no <!-- z -->"):
        replace_between(text, "z", "new\n")


def test_the_readme_has_a_place_for_each_table() -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    names = ("bench-runtimes runtimes", "bench-runtimes clients", "bench-pythons", "bench-kube")
    assert [name for name in names if f"<!-- {name} -->\n" not in text] == []
