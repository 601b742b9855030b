"""Assembles the sources of the documentation site in build/docs: docs/, pages of the repository, and the reference.

Run by `make docs-site` before the site is built (mkdocs.yml). A link to a file of the repository leads to its page in
the site; if it has none, as source code, the link becomes plain text, since the site is read without the repository.
"""

import ast
import asyncio
import inspect
import posixpath
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import yaml

__all__ = ["assemble", "main", "unrendered_fences", "write_sources"]

ROOT = Path(__file__).parent.parent
PAGES = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "support.md": "SUPPORT.md",
    **{f"systems/{name}.md": f"systems/{name}/README.md" for name in ("local", "omnia", "dcp", "machine")},
}
"""The pages whose source is outside of docs/, by their place in the site."""
PACKAGES = (
    "levelset",
    "levelset.aio",
    "levelset.apiserver",
    "levelset.cel",
    "levelset.client",
    "levelset.codegen",
    "levelset.dashboard",
    "levelset.http",
    "levelset.objects",
    "levelset.patch",
    "levelset.runtime.cache",
    "levelset.runtime.controller",
    "levelset.runtime.manager",
    "levelset.runtime.queue",
    "levelset.runtime.state",
    "levelset.runtime.watch",
    "levelset.runtime.webhook",
    "levelset.storage",
    "levelset.testing",
    "levelset.testing.contracts",
    "levelset.testing.explore",
)
"""The packages with a page in the API reference."""
SETTINGS = {
    "Controllers": (
        "levelset.Controller",
        "levelset.runtime.controller.relations.WatchOptions",
        "levelset.aio.Backoff",
    ),
    "Programs": ("levelset.run", "levelset.Manager", "levelset.LeaderElection", "levelset.Sharding"),
    "Webhooks": ("levelset.runtime.webhook.Webhooks", "levelset.runtime.webhook.HookOptions"),
    "Client": ("levelset.Client", "levelset.Config", "levelset.client.Retries", "levelset.client.PoolLimits"),
    "Server": (
        "levelset.apiserver.ApiServer",
        "levelset.apiserver.UserLimits",
        "levelset.apiserver.AuditLog",
        "levelset.http.Limits",
        "levelset.storage.MemoryStorage",
        "levelset.storage.SqliteStorage",
    ),
    "Tests": (
        "levelset.testing.open_cluster",
        "levelset.testing.ProcessOptions",
        "levelset.testing.explore.Exploration",
        "levelset.testing.explore.explore",
    ),
}
"""The classes and functions of the settings page, by section."""
ENVIRONMENT = {
    "KUBECONFIG": "The kubeconfig files, before the in-cluster config and `~/.kube/config`.",
    "LEVELSET_LOG": "The style of the logs: `plain` (default) or `json`.",
    "LEVELSET_RUNTIME_DIR": "The folder by which `levelset status`, `why` and `trigger` find managers of this user.",
    "LEVELSET_TEST_KUBECONFIG": "Runs the tests on this cluster instead of the in-process server.",
    "LEVELSET_WEBHOOK_SERVICE": "The Service of the webhooks, as `name.namespace`.",
    "LEVELSET_WEBHOOK_URL": "The URL by which the cluster reaches the webhooks.",
    "NO_COLOR": "Any value turns the colours of the command off.",
}
"""The environment variables that a program of levelset reads; a test compares them with the source."""
_LEFT_OUT = object()
"""The default of an option that may be left out, and whose meaning says what holds then."""
REMEDY = "What to do: "
"""How the paragraph of an error's docstring begins that says what its reader should do."""
KIND_MODULE = re.compile(r"[a-z]+_v\d+|enums")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE_INFO = re.compile(r"\A( *```[a-z]+) [^\n]*")
"""The opening of a fence with more than a language, such as `python norun`: Markdown knows the language only."""
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
OUTSIDE = ("http://", "https://", "mailto:", "#")


def assemble(to: Path) -> None:
    """Writes the sources of the site to a folder, which is emptied first."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ROOT / "docs", to, ignore=shutil.ignore_patterns("README.md", "*.py", "__pycache__"))
    pages = _pages()
    for place, text in pages.items():
        path = to / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_relinked(text, place, pages)), encoding="utf-8")
    (to / "llms.txt").write_text("".join(_overview(pages, _navigation(to))), encoding="utf-8")


def unrendered_fences(site: Path) -> list[str]:
    """The pages of a built site that show the marks of a fence instead of code."""
    pages = sorted(site.rglob("*.html"))
    return [path.relative_to(site).as_posix() for path in pages if "```" in path.read_text(encoding="utf-8")]


def main() -> None:
    """Assembles the sources with the settings of the site, or with `--check` checks the pages that were built."""
    if sys.argv[1:] == ["--check"]:
        if broken := unrendered_fences(ROOT / "build/site"):
            sys.exit(f"a fence is not rendered as code in {', '.join(broken)}; look for ``` in these pages")
        return
    write_sources(ROOT / "build/docs")


def write_sources(to: Path) -> None:
    """Assembles the sources, and writes the settings of the site with its whole navigation beside them."""
    assemble(to)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["nav"] = _navigation(to)
    settings |= {"docs_dir": "docs", "site_dir": "site"}
    settings["plugins"][1]["mkdocstrings"]["handlers"]["python"]["paths"] = ["../src"]
    (to.parent / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def _navigation(to: Path) -> list[dict[str, list[Any]]]:
    """The sections of the site with their pages, those of the reference and the decisions too."""
    sections: list[dict[str, list[Any]]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    for section in sections:
        if "Reference" in section:
            section["Reference"][0] = {"API": [{name: f"reference/api/{name}.md"} for name in PACKAGES]}
        if "Decisions" in section:
            section["Decisions"] = sorted(f"decisions/{path.name}" for path in (to / "decisions").glob("*.md"))
    return sections


def _pages() -> dict[str, str]:
    """All pages of the site, by their place in it."""
    pages = {place: (ROOT / source).read_text(encoding="utf-8") for place, source in PAGES.items()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        place = path.relative_to(ROOT / "docs").as_posix()
        if place != "README.md":
            pages[place] = path.read_text(encoding="utf-8")
    pages |= {f"reference/api/{name}.md": f"# {name}\n\n::: {name}\n" for name in PACKAGES}
    pages["reference/errors.md"] = "".join(_errors())
    pages["reference/command-line.md"] = "".join(_command_line())
    pages["reference/kinds.md"] = "".join(_kinds())
    pages["reference/settings.md"] = "".join(_settings())
    pages["reference/metrics.md"] = "".join(_metrics())
    return pages


def _overview(pages: Mapping[str, str], sections: list[dict[str, list[Any]]]) -> Iterator[str]:
    """llms.txt, for programs that read: the pages in the order of the site, each with its first sentence."""
    yield "# levelset\n\n> Kubernetes controllers in Python, with a control plane in a box.\n"
    for section in sections:
        for name, entries in section.items():
            yield f"\n## {name}\n\n"
            for place in _places(entries):
                yield f"- [{_title(pages[place])}]({place.removesuffix('.md')}.html){_first_sentence(pages[place])}\n"


def _places(entries: Any) -> Iterator[str]:
    """The pages in a part of the navigation, which is a page, a list, or a list by name."""
    if isinstance(entries, str):
        yield entries
        return
    found: Any = entries
    parts: list[Any] = list(found.values()) if isinstance(entries, dict) else list(found)
    for part in parts:
        yield from _places(part)


def _first_sentence(text: str) -> str:
    """The first sentence of a page's prose, with a colon before it; empty where there is none."""
    paragraphs = FENCED.sub("", text).split("\n\n")
    prose = next((one for one in paragraphs if re.match(r"(\*\*|`|\")?[A-Z.]", one.lstrip())), "")
    words = LINK.sub(r"\g<text>", " ".join(prose.split())).replace("**", "")
    return ": " + re.split(r"(?<=\.)\s", words, maxsplit=1)[0].rstrip(":") if words else ""


def _title(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("# "))[2:].replace("`", "")


def _relinked(text: str, place: str, pages: Mapping[str, str]) -> Iterator[str]:
    """The parts of a page, code and prose in turn, with links to the pages of the site."""
    replaced = _replacer(place, pages)
    for at, part in enumerate(FENCED.split(text)):
        yield FENCE_INFO.sub(r"\1", part) if at % 2 else LINK.sub(replaced, part)


def _replacer(place: str, pages: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    source = PAGES.get(place, f"docs/{place}")

    def replaced(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or match["target"].startswith(OUTSIDE):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = _page_of(path)
        if found not in pages and not path.startswith(("docs/images/", "docs/grafana/")):
            return match["text"]
        if path == "docs/README.md":
            anchor = ""
        relative = posixpath.relpath(found, posixpath.dirname(place) or ".")
        return f"{match['image']}[{match['text']}]({relative}{'#' + anchor if anchor else ''})"

    return replaced


def _page_of(path: str) -> str:
    """The place in the site of a file of the repository."""
    for place, source in PAGES.items():
        if source == path:
            return place
    return "index.md" if path == "docs/README.md" else path.removeprefix("docs/")


def _command_line() -> Iterator[str]:
    """The help of every command, as the command prints it."""
    import click  # noqa: PLC0415 -- with levelset's extra `cli`

    from levelset.cli.commands import levelset  # noqa: PLC0415 -- as above

    yield "# Command line\n\nWhat `levelset COMMAND --help` prints.\n"
    context = click.Context(levelset, info_name="levelset")
    yield from _commands(levelset, context)


def _commands(command: Any, context: Any) -> Iterator[str]:
    for name in sorted(command.list_commands(context)):
        found = command.get_command(context, name)
        below = type(context)(found, info_name=name, parent=context)
        yield f"\n## {below.command_path}\n\n```text\n{found.get_help(below)}\n```\n"
        if hasattr(found, "list_commands"):
            yield from _commands(found, below)


def kind_modules() -> dict[str, ModuleType]:
    """The modules of `levelset.kinds`, one for each group and version, by name; their own parts are left out."""
    package = import_module("levelset.kinds")
    names = [one.name for one in iter_modules(package.__path__) if KIND_MODULE.fullmatch(one.name)]
    return {f"levelset.kinds.{name}": import_module(f"levelset.kinds.{name}") for name in sorted(names)}


def _kinds() -> Iterator[str]:
    """The classes of every module of `levelset.kinds`, the kinds first."""
    yield "# Built-in kinds\n\nThe classes of Kubernetes' own kinds, by group and version: "
    yield "`from levelset.kinds.apps_v1 import Deployment`. What most programs need is in `levelset.kinds`, too. "
    yield "Fields have the names of Kubernetes in snake_case; [kinds and schemas](../kinds.md#kinds-of-kubernetes) has "
    yield "an example.\n"
    base: Any = import_module("levelset").Object
    for name, module in kind_modules().items():
        classes = {one: getattr(module, one) for one in module.__all__}
        kinds = [one for one, found in classes.items() if issubclass(found, base)]
        yield f"\n## {name}\n\n"
        if kinds:
            yield f"Kinds: {', '.join(f'`{one}`' for one in kinds)}.\n\n"
        if parts := [one for one in classes if one not in kinds]:
            yield f"Parts of them: {', '.join(f'`{one}`' for one in parts)}.\n"


def public_errors() -> dict[str, list[type[BaseException]]]:
    """Every exception that `levelset.errors` or a package of the reference exports, by that module."""
    seen: set[type[BaseException]] = set()
    found: dict[str, list[type[BaseException]]] = {}
    for module in ("levelset.errors", *PACKAGES):
        names = import_module(module).__all__
        exported = [getattr(import_module(module), name) for name in names]
        errors = [one for one in exported if isinstance(one, type) and issubclass(one, BaseException)]
        if new := [one for one in errors if one not in seen]:
            found[module] = new
            seen.update(new)
    return found


def remedy_of(error: type[BaseException]) -> str:
    """What to do about an error, from its docstring; empty if that does not say it."""
    paragraphs = inspect.cleandoc(error.__doc__ or "").split("\n\n")
    texts = [" ".join(one.split()) for one in paragraphs if one.startswith(REMEDY)]
    return texts[0].removeprefix(REMEDY) if texts else ""


def _errors() -> Iterator[str]:
    """The errors with what to do about each, and then their classes."""
    yield "# Errors\n\nWhat each error means, and what to do about it.\n"
    for module, errors in public_errors().items():
        yield f"\n## {module}, in short\n\n| error | meaning | what to do |\n|---|---|---|\n"
        for error in errors:
            meaning = (error.__doc__ or "").split("\n", 1)[0]
            yield f"| `{error.__name__}` | {meaning} | {_capitalized(remedy_of(error))} |\n"
    yield "\n## The classes of levelset.errors\n\n::: levelset.errors\n"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _metrics() -> Iterator[str]:
    """Every metric family that a running manager with a leader election and webhooks serves."""
    yield "# Metrics\n\nWhat a manager serves at `/metrics`, apart from your own metrics.\n\n"
    yield "| metric | type | labels | what it says |\n|---|---|---|---|\n"
    for one in sorted(served_families(), key=lambda one: one.name):
        names = dict.fromkeys(name for sample in one.samples for name, _ in sample.labels.items() if name != "le")
        yield f"| `{one.name}` | {one.kind} | {', '.join(f'`{name}`' for name in names)} | {one.help} |\n"


def served_families() -> list[Any]:
    """The metric families of levelset itself, from a manager that runs and has reconciled an object."""
    from levelset.runtime.manager.metrics import WebhookMetrics  # noqa: PLC0415 -- a page of the site needs it

    webhooks = WebhookMetrics()
    webhooks.add(["/validate"])
    return [*asyncio.run(_families_of_a_manager()), *webhooks.families()]


async def _families_of_a_manager() -> list[Any]:
    from levelset import Context, Controller, LeaderElection, ObjectMeta, Sharding, open_local  # noqa: PLC0415
    from levelset.kinds.core_v1 import ConfigMap  # noqa: PLC0415 -- as above
    from levelset.runtime.manager.custom_metrics import REGISTRY  # noqa: PLC0415 -- as above

    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        """Reconciles nothing."""

    found: dict[str, Any] = {}
    replicas: list[dict[str, Any]] = [{"leader": LeaderElection(name="docs")}, {"shards": Sharding(name="docs")}]
    for options in replicas:
        async with open_local(Controller(ConfigMap, reconcile), **options) as local:
            await local.manager.wait_elected()
            await local.client.create(ConfigMap(metadata=ObjectMeta(name="one", namespace="default")))
            await local.manager.wait_idle()
            own = {one.name for one in REGISTRY.families()}  # those that a program defines itself
            families = [one for one in local.manager.metrics.registry.families() if one.samples]
            found |= {one.name: one for one in families if one.name not in own and one.name not in found}
    return list(found.values())


def _settings() -> Iterator[str]:
    """Every settings class and function, with the fields, defaults and meanings that the source gives them."""
    yield "# Settings\n\nNearly all are keyword arguments. A wrong value is refused at once, with the reason.\n"
    for section, names in SETTINGS.items():
        yield f"\n## {section}\n"
        for name in names:
            yield from _settings_of(name)
    yield "\n## Environment variables\n\n| variable | meaning |\n|---|---|\n"
    for name, meaning in ENVIRONMENT.items():
        yield f"| `{name}` | {meaning} |\n"


def _settings_of(name: str) -> Iterator[str]:
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    first = inspect.cleandoc(found.__doc__ or "").split("\n", 1)[0]
    yield f"\n### {attribute}\n\n{first}\n\n| field | type | default | meaning |\n|---|---|---|---|\n"
    for field, annotation, default, meaning in settings_of(found):
        yield f"| `{field}` | `{annotation}` | {default} | {meaning} |\n"


def settings_of(found: Any) -> Iterator[tuple[str, str, str, str]]:
    """Field, type, default and meaning of each setting of a class or function; ValueError if one has no meaning."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    documented = dict(_attribute_docstrings(tree))
    options = getattr(import_module(found.__module__), "_DEFAULTS", None) if found.__name__ == "Controller" else None
    for name, annotation in _fields(tree):
        if options is not None and name not in options:
            continue
        meaning = documented.get(name) or _sentences_about(name, _documentation(found))
        if not meaning:
            raise ValueError(f"{found.__qualname__}: the docstring does not say what `{name}` is")
        default = _shown(_default(found, name) if options is None else options[name])
        yield name, annotation, default, meaning


def _fields(tree: Any) -> Iterator[tuple[str, str]]:
    """The fields of a dataclass, struct or TypedDict, or the keyword parameters of a function or of `__init__`."""
    functions: list[Any] = [one for one in getattr(tree, "body", ()) if getattr(one, "name", "") == "__init__"]
    if isinstance(tree, ast.ClassDef) and (not functions or _is_data(tree)):
        for field in tree.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield field.target.id, ast.unparse(field.annotation)
        return
    function: Any = functions[-1] if functions else tree
    arguments: ast.arguments = function.args
    for one in (*arguments.args[bool(functions) :], *arguments.kwonlyargs):
        yield one.arg, "" if one.annotation is None else ast.unparse(one.annotation)


def _is_data(tree: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(one) for one in tree.decorator_list)


def _attribute_docstrings(tree: Any) -> Iterator[tuple[str, str]]:
    """The texts that stand below the fields of a class."""
    body: list[ast.stmt] = tree.body
    for field, after in pairwise(body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
            case _:
                pass


def _sentences_about(name: str, docstring: str) -> str:
    """The item of the docstring's list about a name, or its first sentence that has the name in backticks."""
    text = inspect.cleandoc(docstring)
    quoted = rf"`{name}(?:`|=)"
    if item := re.search(rf"^- {quoted}.*?(?=^- |\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
        return " ".join(item[0][2:].split())
    items = re.split(r"\n\n|^- ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    sentences = [one for item in items for one in re.split(r"(?<=[.;]) (?=[A-Z`a-z])", " ".join(item.split()))]
    return next((_capitalized(one) for one in sentences if re.search(quoted, one)), "")


def _documentation(found: Any) -> str:
    """The docstring, and that of another name of its module that it refers to as "see `name`"."""
    text = inspect.cleandoc(found.__doc__ or "")
    others = [getattr(import_module(found.__module__), name, None) for name in re.findall(r"see `(\w+)`", text)]
    return "\n\n".join([text, *(inspect.cleandoc(one.__doc__ or "") for one in others if one is not None)])


def _default(found: Any, name: str) -> Any:
    if getattr(found, "__total__", True) is False:
        return _LEFT_OUT
    return inspect.signature(found).parameters[name].default


def _shown(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is _LEFT_OUT:
        return "-"
    if isinstance(default, int) and not isinstance(default, bool):
        return f"`{default:_}`"
    if callable(default) and hasattr(default, "__name__"):
        return f"`{default.__name__}`"
    text = repr(default)
    return "a new one" if " at 0x" in text or "<factory>" in text else f"`{text}`"


if __name__ == "__main__":
    main()
