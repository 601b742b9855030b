"""`levelset init` and `levelset create` make a project that works at once, and never lose what somebody changed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.cli.scaffold.project_files import KindNames, add_lines

CACHES = {".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
GOLDEN = Path(__file__).parents[1] / "scaffolded"


def type_(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(levelset, words, input=answer, catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one kind that has webhooks."""
    assert type_("init", "shop", "--kind", "WebOrder", "--api", "shop.example.dev/v1").exit_code == 0
    monkeypatch.chdir(folder / "shop")
    assert type_("create", "webhook", "WebOrder").exit_code == 0
    return folder / "shop"


def files_of(folder: Path) -> dict[str, str]:
    found = [path for path in folder.rglob("*") if path.is_file() and not CACHES.intersection(path.parts)]
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def test_the_project_is_the_one_that_lint_and_type_checkers_see_in_this_repository(shop: Path) -> None:
    made = files_of(shop)
    golden = files_of(GOLDEN / "shop")
    assert sorted(made) == sorted(golden)
    assert [path for path in made if made[path] != golden[path]] == []


def test_it_says_what_it_wrote_and_what_to_type_next(folder: Path) -> None:
    told = type_("init", "shop")
    assert "wrote     shop/src/shop/greeting.py" in told.output.splitlines()
    assert told.output.splitlines()[-1] == "Type next: cd shop && make install lint test"
    assert (folder / "shop" / "AGENTS.md").is_file()


def test_the_second_time_nothing_changes(shop: Path) -> None:
    before = files_of(shop)
    told = type_("init", ".", "--kind", "WebOrder", "--api", "shop.example.dev/v1")
    assert {line[:9] for line in told.output.splitlines()[:-1]} == {"as it was"}
    assert files_of(shop) == before


def test_what_somebody_changed_is_kept_unless_they_agree(shop: Path) -> None:
    path = shop / "src/shop/web_order.py"
    path.write_text(path.read_text() + "\n# mine\n")
    words = ("create", "kind", "WebOrder", "--api", "shop.example.dev/v1")
    told = type_(*words, answer="n\n")
    assert "-# mine" in told.output
    assert "kept      src/shop/web_order.py" in told.output
    assert path.read_text().endswith("# mine\n")
    type_(*words, answer="y\n")
    assert "# mine" not in path.read_text()


def test_without_an_answer_nothing_is_overwritten_and_with_force_nobody_is_asked(shop: Path) -> None:
    path = shop / "src/shop/web_order.py"
    path.write_text("mine\n")
    words = ("create", "kind", "WebOrder", "--api", "shop.example.dev/v1")
    type_(*words)
    assert path.read_text() == "mine\n"
    type_(*words, "--force")
    assert "class WebOrder(" in path.read_text()


def test_another_kind_is_added_beside_the_first(shop: Path) -> None:
    assert type_("create", "kind", "Bill", "--api", "shop.example.dev/v1").exit_code == 0
    text = (shop / "src/shop/operator.py").read_text()
    assert text.index("from shop.bill import bills") < text.index("from shop.web_order import web_orders")
    assert "    web_orders,\n    bills,\n" in text


def test_a_mark_that_somebody_removed_is_told_with_the_line_to_add(shop: Path) -> None:
    path = shop / "src/shop/operator.py"
    path.write_text(path.read_text().replace("# levelset: controllers", ""))
    told = type_("create", "kind", "Bill", "--api", "shop.example.dev/v1")
    assert "src/shop/operator.py has lost its mark; add this line yourself: bills," in told.stderr


def test_programs_are_told_in_json_what_became_of_each_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(type_("init", "shop", "-o", "json").stdout)
    states = {one["file"]: one["state"] for one in told["files"]}
    assert (set(states.values()), told["add"]) == ({"wrote"}, [])
    assert {"shop/src/shop/greeting.py", "shop/src/shop/operator.py", "shop/Makefile"} <= set(states)
    assert told["next"] == "cd shop && make install lint test"
    monkeypatch.chdir(folder / "shop")
    told = json.loads(type_("create", "webhook", "Greeting", "--output", "json").stdout)
    states = {one["file"]: one["state"] for one in told["files"]}
    assert states["src/shop/operator.py"] == "changed"
    assert states["src/shop/greeting_webhooks.py"] == "wrote"


def test_a_program_is_not_asked_and_what_somebody_changed_is_kept(shop: Path) -> None:
    path = shop / "src/shop/web_order.py"
    path.write_text("mine\n")
    operator = shop / "src/shop/operator.py"
    operator.write_text(operator.read_text().replace("    web_orders,\n    # levelset: controllers\n", ""))
    words = ("create", "kind", "WebOrder", "--api", "shop.example.dev/v1", "-o", "json")
    told = type_(*words)
    states = {one["file"]: one["state"] for one in json.loads(told.stdout)["files"]}
    assert (told.exit_code, states["src/shop/web_order.py"], path.read_text()) == (0, "kept", "mine\n")
    assert json.loads(told.stdout)["add"] == ["web_orders,"]
    states = {one["file"]: one["state"] for one in json.loads(type_(*words, "--force").stdout)["files"]}
    assert states["src/shop/web_order.py"] == "changed"


def test_who_goes_away_instead_of_answering_has_lost_nothing_and_is_not_asked_about_our_files(shop: Path) -> None:
    mine = shop / "README.md"
    mine.write_text("mine\n")
    (shop / ".levelset/files.json").unlink()
    words = ("init", ".", "--kind", "WebOrder", "--api", "shop.example.dev/v1")
    assert type_(*words).exit_code == 1
    record = json.loads((shop / ".levelset/files.json").read_text())
    assert "README.md" not in record
    assert mine.read_text() == "mine\n"


def test_a_line_that_is_there_is_not_added_again() -> None:
    text = '"""All."""\n\nfrom a.b import c\n\nmany = [\n    c,\n    # levelset: controllers\n]\n'
    lines = {"imports": "from a.b import c", "controllers": "    c,"}
    assert add_lines(text, lines) == (text, [])


@pytest.mark.parametrize(
    ("kind", "module", "plural"),
    [
        ("Website", "website", "websites"),
        ("WebShop", "web_shop", "web_shops"),
        ("HTTPProxy", "http_proxy", "http_proxies"),
    ],
)
def test_all_names_come_from_that_of_the_kind(kind: str, module: str, plural: str) -> None:
    names = KindNames(kind, "a.dev/v1")
    assert (names.module, names.plural) == (module, plural)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init", "Not a name"], "'Not a name' is no name for a project"),
        (["init", "shop", "--name", "class"], "'class' is no name for a project"),
        (["init", "shop", "--kind", "website"], "'website' is no name for a kind"),
        (["init", "shop", "--kind", "Class"], "'Class' is no name for a kind"),
        (["init", "shop", "--kind", "None"], "'None' is no name for a kind"),
        (["init", "shop", "--kind", "Operator"], "'Operator' would hide something that its own files need; choose"),
        (["init", "shop", "--kind", "Controller"], "'Controller' would hide something"),
        (["init", "shop", "--kind", "Own"], "'Own' would hide something"),
        (["init", "shop", "--kind", "BillWebhooks"], "'BillWebhooks' would hide something"),
        (["init", "shop", "--kind", "TestRun"], "pytest would take a kind called 'TestRun' for a test; choose another"),
        (["init", "json"], "a project called 'json' would hide the Python package json; choose another with --name"),
        (["init", "levelset"], "would hide the Python package levelset"),
        (["init", "tests"], "would hide the Python package tests"),
        (["init", "shop", "--api", "v1"], "'v1' is no group and version: write for example shop.example.dev/v1"),
        (["create", "kind", "Bill", "--api", "shop.dev/v1"], "there is no pyproject.toml here"),
        (["create", "kind", "Bill"], "Missing option '--api'"),
        (["create", "webhook", "Bill"], "there is no pyproject.toml here"),
    ],
)
def test_what_is_not_understood_is_refused_before_a_file_is_written(folder: Path, words: list[str], said: str) -> None:
    told = type_(*words)
    assert told.exit_code == 2
    assert said in told.stderr
    assert list(folder.iterdir()) == []


def test_webhooks_need_their_kind(shop: Path) -> None:
    told = type_("create", "webhook", "Bill")
    assert told.exit_code == 2
    assert f"there is no src/{shop.name}/bill.py; first: levelset create kind Bill" in told.stderr


@pytest.mark.parametrize("text", ["", "[project]\n", "not toml", "[project]\nname = 3\n"])
def test_a_pyproject_that_names_no_project_is_refused(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    told = type_("create", "kind", "Bill", "--api", "shop.dev/v1")
    assert told.exit_code == 2
    assert "project" in told.stderr
