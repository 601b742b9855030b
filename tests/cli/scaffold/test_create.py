"""`levelset init` and `levelset create`: the generated project, and that changes of the user are preserved."""

import json
from fnmatch import fnmatch
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


def test_the_generated_project_equals_the_golden_one(shop: Path) -> None:
    made = files_of(shop)
    golden = files_of(GOLDEN / "shop")
    assert sorted(made) == sorted(golden)
    assert [path for path in made if made[path] != golden[path]] == []


def test_it_prints_the_files_and_the_next_step(folder: Path) -> None:
    result = type_("init", "shop")
    assert "wrote     shop/src/shop/greeting.py" in result.output.splitlines()
    assert result.output.splitlines()[-1] == "Next: cd shop && make install lint test"
    assert (folder / "shop" / "AGENTS.md").is_file()


def test_the_second_time_nothing_changes(shop: Path) -> None:
    before = files_of(shop)
    result = type_("init", ".", "--kind", "WebOrder", "--api", "shop.example.dev/v1")
    assert {line[:9] for line in result.output.splitlines()[:-1]} == {"unchanged"}
    assert files_of(shop) == before


def test_changed_files_are_skipped_without_confirmation(shop: Path) -> None:
    path = shop / "src/shop/web_order.py"
    path.write_text(path.read_text() + "\n# mine\n")
    words = ("create", "kind", "WebOrder", "--api", "shop.example.dev/v1")
    result = type_(*words, answer="n\n")
    assert "-# mine" in result.output
    assert "skipped   src/shop/web_order.py" in result.output
    assert path.read_text().endswith("# mine\n")
    type_(*words, answer="y\n")
    assert "# mine" not in path.read_text()


def test_force_overwrites_without_confirmation(shop: Path) -> None:
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


def test_a_missing_marker_is_reported_with_the_line_to_add(shop: Path) -> None:
    path = shop / "src/shop/operator.py"
    path.write_text(path.read_text().replace("# levelset: controllers", ""))
    result = type_("create", "kind", "Bill", "--api", "shop.example.dev/v1")
    assert "src/shop/operator.py has no marker comment for this line; add it by hand: bills," in result.stderr


def test_json_output(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = json.loads(type_("init", "shop", "-o", "json").stdout)
    states = {one["file"]: one["state"] for one in result["files"]}
    assert (set(states.values()), result["add"]) == ({"wrote"}, [])
    assert {"shop/src/shop/greeting.py", "shop/src/shop/operator.py", "shop/Makefile"} <= set(states)
    assert result["next"] == "cd shop && make install lint test"
    monkeypatch.chdir(folder / "shop")
    result = json.loads(type_("create", "webhook", "Greeting", "--output", "json").stdout)
    states = {one["file"]: one["state"] for one in result["files"]}
    assert states["src/shop/operator.py"] == "changed"
    assert states["src/shop/greeting_webhooks.py"] == "wrote"


def test_json_output_skips_changed_files_without_a_prompt(shop: Path) -> None:
    path = shop / "src/shop/web_order.py"
    path.write_text("mine\n")
    operator = shop / "src/shop/operator.py"
    operator.write_text(operator.read_text().replace("    web_orders,\n    # levelset: controllers\n", ""))
    words = ("create", "kind", "WebOrder", "--api", "shop.example.dev/v1", "-o", "json")
    result = type_(*words)
    states = {one["file"]: one["state"] for one in json.loads(result.stdout)["files"]}
    assert (result.exit_code, states["src/shop/web_order.py"], path.read_text()) == (0, "skipped", "mine\n")
    assert json.loads(result.stdout)["add"] == ["web_orders,"]
    states = {one["file"]: one["state"] for one in json.loads(type_(*words, "--force").stdout)["files"]}
    assert states["src/shop/web_order.py"] == "changed"


def test_aborting_a_prompt_loses_nothing_and_keeps_the_record(shop: Path) -> None:
    mine = shop / "README.md"
    mine.write_text("mine\n")
    (shop / ".levelset/files.json").unlink()
    words = ("init", ".", "--kind", "WebOrder", "--api", "shop.example.dev/v1")
    assert type_(*words).exit_code == 1
    record = json.loads((shop / ".levelset/files.json").read_text())
    assert "README.md" not in record
    assert mine.read_text() == "mine\n"


def test_an_existing_line_is_not_added_again() -> None:
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
def test_all_names_derive_from_the_kind(kind: str, module: str, plural: str) -> None:
    names = KindNames(kind, "a.dev/v1")
    assert (names.module, names.plural) == (module, plural)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["init", "Not a name"], "'Not a name' is not a valid project name"),
        (["init", "shop", "--name", "class"], "'class' is not a valid project name"),
        (["init", "shop", "--kind", "website"], "'website' is not a valid kind"),
        (["init", "shop", "--kind", "Class"], "'Class' is not a valid kind"),
        (["init", "shop", "--kind", "None"], "'None' is not a valid kind"),
        (
            ["init", "shop", "--kind", "Operator"],
            "'Operator' would shadow a name that its generated files need; choose",
        ),
        (["init", "shop", "--kind", "Controller"], "'Controller' would shadow a name"),
        (["init", "shop", "--kind", "Own"], "'Own' would shadow a name"),
        (["init", "shop", "--kind", "BillWebhooks"], "'BillWebhooks' would shadow a name"),
        (
            ["init", "shop", "--kind", "TestRun"],
            "pytest would collect a kind named 'TestRun' as a test; choose another",
        ),
        (["init", "json"], "a project named 'json' would shadow the Python package json; choose another with --name"),
        (["init", "levelset"], "would shadow the Python package levelset"),
        (["init", "tests"], "would shadow the Python package tests"),
        (["init", "shop", "--api", "v1"], "'v1' is not a group and version: write for example shop.example.dev/v1"),
        (["create", "kind", "Bill", "--api", "shop.dev/v1"], "there is no pyproject.toml in this directory"),
        (["create", "kind", "Bill"], "Missing option '--api'"),
        (["create", "webhook", "Bill"], "there is no pyproject.toml in this directory"),
    ],
)
def test_a_usage_error_is_refused_before_a_file_is_written(folder: Path, words: list[str], message: str) -> None:
    result = type_(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", [".gitignore", ".dockerignore"])
def test_the_data_and_secrets_of_a_server_are_neither_committed_nor_put_into_an_image(shop: Path, name: str) -> None:
    patterns = (shop / name).read_text(encoding="utf-8").splitlines()
    secret = ["levelset.kubeconfig", "shop.kubeconfig", "shop.db.token", "shop.db.authority"]
    data = ["shop.db", "shop.db-wal", "shop.db-shm", "shop.db-revision", "shop.db-reserve"]
    assert [one for one in (*secret, *data) if not any(fnmatch(one, pattern) for pattern in patterns)] == []


def test_webhooks_need_their_kind(shop: Path) -> None:
    result = type_("create", "webhook", "Bill")
    assert result.exit_code == 2
    assert f"there is no src/{shop.name}/bill.py; first: levelset create kind Bill" in result.stderr


@pytest.mark.parametrize("text", ["", "[project]\n", "not toml", "[project]\nname = 3\n"])
def test_a_pyproject_without_a_name_is_refused(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    result = type_("create", "kind", "Bill", "--api", "shop.dev/v1")
    assert result.exit_code == 2
    assert "project" in result.stderr
