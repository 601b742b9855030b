"""Sequences of requests, generated from a seed: the same seed gives the same sequence.

A request is a step of the conformance kit (`tests/conformance/kit/README.md`). `${ns}` and `${id}` are those of the
run; `${rv2}`, `${uid2}` and `${continue2}` are of the answer to the second request.
"""

import copy
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import yaml

from tests.differential.corpus import Corpus, Kind
from tests.differential.mutations import Mutator

__all__ = ["Step", "sequence"]

Step = dict[str, Any]

_META = "v=v1;g=meta.k8s.io"
_ACCEPTS = (
    *("table", "metadata", "metadata-list", "application/yaml", "application/xml", "*/*", "text/html"),
    *("table,application/json", f"application/json;as=Odd;{_META}", "application/json;stream=watch"),
    *("application/cbor", "application/*", "*/json", "*", "odd", "text/plain", "image/*,*/*;q=0.1", "Application/JSON"),
    *("application/json;q=0", "application/yaml;q=0.1,application/json;q=0.9", "*/*;q=1,application/yaml;q=0.1"),
    *("application/json;pretty=1", "application/json;stream=odd", "application/yaml;stream=watch"),
    *("application/json;sv=v1", "application/json;sv=v2", "application/json; charset=utf-8", "application/json;v=v1"),
    *(
        "application/json;as=Table",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        f"application/yaml;as=Table;{_META}",
    ),
    *(f"application/yaml;as=PartialObjectMetadata;{_META}", f"application/vnd.kubernetes.protobuf;as=Table;{_META}"),
    *("application/json;as=Table;v=v1beta1;g=meta.k8s.io", f"application/json;as=Odd;{_META},application/json"),
)
_SELECTORS = (
    *("app=web", "app!=web", "a", "!a", "a in (b,c)", "a notin (b)", "a=b,c=d", "a==b", "a>1", "a in", "=", "a=b=c"),
    *("Not Valid", "a b", "a,", ",a", "a,,b", "!", "!!a", "!a=b", "a===b", "a=", "a=,b", "a=(b)", "(a)", "a in (", ""),
    *("a in ()", "a in (,)", "a in (b", "a in (b,", "a in (b c)", "a in (b=c)", "a in (=)", "a in ((b))", "a in (b)c"),
    *("in in (in)", "notin", "a not in (b)", "a>", "a>b", "a<1.5", "a>-1", "a>=1", "a=$$", "a in ($,x)", "a in ($,x"),
    *(
        "$=1",
        "x/y/z=1",
        "X/y=1",
        "/y=1",
        "x/=1",
        "-a",
        "a=b_",
        "\u00fc",
        "a=\u00fc",
        "a=" + "b" * 64,
        "a|b",
        "a\tin\n(b)",
    ),
)
_FIELDS = (
    *("metadata.name=web", "metadata.name!=web", "metadata.namespace=default", "spec.nodeName=a"),
    *("status.phase=Running", "status.phase!=Running", "type=Opaque", "reason=a", "involvedObject.kind=Pod"),
    *("status.successful=1", "status.replicas=3", "spec.signerName=a", "spec.driver=a", "spec.type=ClusterIP"),
    *("spec.odd=1", "odd", "=", "!=", ",", "=x", "a==b==c", "a=b=c", "a!b=c", "a=b!=c", "a\\=b=c", "a=b\\,c", "a=b\\c"),
    *("metadata.name=a\\", "metadata.name=a\\,b", "metadata.name in (a)", "metadata.name = a", "metadata.name", ""),
    *("metadata.name=a,,metadata.namespace=b", "b=1,a=1", "metadata.labels=1", "metadata.uid=a", "spec.host=a"),
)
_VALIDATION = ("Strict", "Warn", "Ignore", "Odd", "")
_PATHS = (
    *(
        "/version",
        "/openapi/v3",
        "/apis",
        "/api",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/apps/v2",
        "/apis/odd",
        "/apis/odd/v1/things",
    ),
    *("/api/v2", "/api/v1/odds", "/api/v1/namespaces/${ns}/odds", "/api/v1/namespaces/${ns}/odds/a", "/odd", "/"),
    *(
        "/apis/fuzz.example.com",
        "/apis/fuzz.example.com/v1",
        "/apis/fuzz.example.com/v9",
        "/apis/fuzz.example.com/v9/widgets",
    ),
    *("/api/v1/namespaces/${ns}/pods/web/odd", "/api/v1/namespaces/${ns}/configmaps/a/status", "/api/v1/nodes/a/b/c"),
    *("/apis/apps/v1/deployments/web", "/api/v1/namespaces/missing/pods", "/api/v1/namespaces/missing/pods/a"),
    *(
        "/apis/apps/v1/namespaces/${ns}/Deployments",
        "/api/v1/pods/web",
        "/api/v1/namespaces/${ns}/nodes",
        "/apis/v1/pods",
    ),
    *(
        "/api/v1/namespaces/${ns}",
        "/api/v1/namespaces/${ns}/status",
        "/api/v1/namespaces/${ns}/finalize",
        "/api/v1/bindings",
    ),
)


@dataclass
class _Object:
    """An object that a sequence is about, as it was last sent."""

    kind: Kind
    name: str
    tree: Any
    steps: list[int] = field(default_factory=list)

    def path(self) -> str:
        return f"{self.kind.collection()}/{self.name}"


class _Writer:
    """Writes one sequence."""

    def __init__(self, corpus: Corpus, random: Random) -> None:
        self.corpus, self.random = corpus, random
        self.mutator = Mutator(corpus, random)
        self.objects: list[_Object] = []
        self.steps: list[Step] = []

    def write(self) -> list[Step]:
        kind = self.corpus.choose(self.random)
        for _ in range(1 if kind.is_dry or "get" not in kind.verbs else self.random.choice((1, 1, 1, 2, 3))):
            self.create(kind)
        for _ in range(self.random.randint(1, 7)):
            self.next()
        if self.random.random() < 0.1 and not kind.is_dry and kind.namespaced and "watch" in kind.verbs:
            self.watch(kind)
        return self.steps

    def watch(self, kind: Kind) -> None:
        step: Step = {"watch": kind.collection(), "query": {"resourceVersion": "${rv1}"}}
        if self.chance(0.3):
            step["query"]["labelSelector"] = self.random.choice(_SELECTORS)
        if self.chance(0.2):
            step["query"]["fieldSelector"] = self.random.choice(_FIELDS)
        if self.chance(0.2):
            step["accept"] = self.random.choice(_ACCEPTS)
        self.steps.append(step)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def next(self) -> None:
        obj = self.random.choice(self.objects)
        if obj.kind.is_dry or "get" not in obj.kind.verbs:
            self.create(obj.kind)
            return
        verbs = (
            *((self.read, 2), (self.update, 4), (self.merge, 3), (self.strategic, 3), (self.json_patch, 3)),
            *(
                (self.apply, 4),
                (self.delete, 1.5),
                (self.list, 2.5),
                (self.subresource, 4),
                (self.collection_delete, 0.4),
            ),
            *((self.odd_path, 0.6), (lambda one: self.create(one.kind), 2)),
        )
        self.random.choices([one for one, _ in verbs], [weight for _, weight in verbs])[0](obj)

    def add(self, step: Step) -> None:
        if self.chance(0.06):
            step["accept"] = self.random.choice(_ACCEPTS)
        if self.chance(0.02):
            step.setdefault("query", {})["pretty"] = self.random.choice(("true", "false", "1", "odd"))
        self.steps.append(step)

    def write_query(self, *, dry: bool = False) -> dict[str, str]:
        query: dict[str, str] = {}
        if dry or self.chance(0.04):
            query["dryRun"] = "All" if dry or self.chance(0.8) else "odd"
        if self.chance(0.12):
            query["fieldValidation"] = self.random.choice(_VALIDATION)
        if self.chance(0.08):
            query["fieldManager"] = self.random.choice(("me", "other", "a" * 129, "ü", ""))
        return query

    def body(self, kind: Kind, tree: Any) -> Any:
        found = {"apiVersion": kind.api_version, "kind": kind.kind} | copy.deepcopy(tree)
        if self.chance(0.01):
            found["apiVersion"] = self.random.choice(("v1", "odd/v1", "", "apps/v9", 1))
        if self.chance(0.01):
            found["kind"] = self.random.choice(("Odd", "", "Pod", None))
        if self.chance(0.05):
            found.pop("apiVersion", None), found.pop("kind", None)
        return found

    def create(self, kind: Kind) -> None:
        tree = copy.deepcopy(self.random.choice(kind.bases))
        if (
            not kind.namespaced
            and not kind.is_dry
            and isinstance(tree.get("metadata"), dict)
            and tree["metadata"].get("name")
        ):
            tree["metadata"]["name"] = f"${{id}}-{tree['metadata']['name']}"
        name = (tree.get("metadata") or {}).get("name", "web")
        tree = self.mutator.changed(kind, tree, self.random.choice((0, 0, 1, 1, 2, 3)))
        self.objects.append(_Object(kind, name, tree))
        query = self.write_query(dry=kind.is_dry)
        step: Step = {"do": f"POST {kind.collection()}", "body": self.body(kind, tree)}
        if query:
            step["query"] = query
        if self.chance(0.03):
            step["raw"] = yaml.safe_dump(step.pop("body"), sort_keys=False)
            step["type"] = "yaml"
        elif self.chance(0.01):
            step["type"] = self.random.choice(("text/plain", "merge", "application/xml", ""))
        elif self.chance(0.01):
            step["raw"] = json.dumps(step.pop("body"))[: self.random.randint(0, 60)]
        self.add(step)

    def reference(self, word: str) -> str:
        return f"${{{word}{self.random.randint(1, max(len(self.steps), 1))}}}"

    def read(self, obj: _Object) -> None:
        step: Step = {"do": f"GET {obj.path()}"}
        if self.chance(0.1):
            step["query"] = {"resourceVersion": self.random.choice((self.reference("rv"), "odd", "-1"))}
        if self.chance(0.2):
            step["accept"] = self.random.choice(_ACCEPTS)
        self.add(step)

    def list(self, obj: _Object) -> None:
        query: dict[str, str] = {}
        if self.chance(0.4):
            query["labelSelector"] = self.random.choice(_SELECTORS)
        if self.chance(0.3):
            query["fieldSelector"] = self.random.choice(_FIELDS)
        if self.chance(0.3):
            query["limit"] = self.random.choice(("1", "2", "0", "-1", "odd", "500"))
        if self.chance(0.1):
            query["continue"] = self.random.choice((self.reference("continue"), "odd"))
        if self.chance(0.15):
            query["resourceVersion"] = self.random.choice((self.reference("rv"), "odd", ""))
        if self.chance(0.1):
            query["resourceVersionMatch"] = self.random.choice(("Exact", "NotOlderThan", "odd"))
        if self.chance(0.03):
            query[self.random.choice(("sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds"))] = "true"
        step: Step = {"do": f"GET {obj.kind.collection()}", "query": query}
        if not obj.kind.namespaced:
            odd = f",{self.random.choice(_FIELDS)}" if self.chance(0.2) else ""
            query["fieldSelector"] = f"metadata.name={obj.name}{odd}"
        if self.chance(0.25):
            step["accept"] = self.random.choice(_ACCEPTS)
        self.add(step)

    def renewed(self, obj: _Object, count: int) -> Any:
        """The object as it was sent, with changes, and with the name that its path has."""
        tree = self.mutator.changed(obj.kind, obj.tree, count)
        if not isinstance(tree.get("metadata"), dict):
            tree["metadata"] = {}
        if not self.chance(0.03):
            tree["metadata"]["name"] = obj.name
        return tree

    def update(self, obj: _Object, part: str = "") -> None:
        tree = self.renewed(obj, self.random.choice((0, 1, 1, 2)))
        if self.chance(0.5):
            tree["metadata"]["resourceVersion"] = self.reference("rv")
        if self.chance(0.05):
            tree["metadata"]["uid"] = self.reference("uid")
        obj.tree = tree
        step: Step = {"do": f"PUT {obj.path()}{part}", "body": self.body(obj.kind, tree)}
        query = self.write_query()
        self.add(step | {"query": query} if query else step)

    def patch(self, obj: _Object, form: str, body: Any, part: str, more: dict[str, str] | None = None) -> None:
        step: Step = {"do": f"PATCH {obj.path()}{part}", "type": form, "body": body}
        query = self.write_query() | (more or {})
        self.add(step | {"query": query} if query else step)

    def merge(self, obj: _Object, part: str = "") -> None:
        self.patch(obj, "merge", self.fragment(obj), part)

    def strategic(self, obj: _Object, part: str = "") -> None:
        body = self.fragment(obj)
        if self.chance(0.3):
            maps = _maps(body)
            self.random.choice(maps).update(
                self.random.choice(
                    ({"$patch": "delete"}, {"$patch": "replace"}, {"$patch": "odd"}, {"$retainKeys": ["a"]})
                )
            )
        self.patch(obj, "strategic", body, part)

    def fragment(self, obj: _Object) -> Any:
        """One place of the changed object, or of what it was, removed."""
        tree = self.mutator.changed(obj.kind, obj.tree, self.random.choice((1, 1, 2)))
        places = self.mutator.places(obj.kind, tree)
        found: dict[str, Any] = {}
        for place in self.random.sample(places, min(len(places), self.random.choice((1, 1, 2)))):
            _merge(found, _fragment(tree, place.steps, removed=self.chance(0.15)))
        if self.chance(0.1):
            found.setdefault("metadata", {})
            if isinstance(found["metadata"], dict):
                found["metadata"]["resourceVersion"] = self.reference("rv")
        return found

    def json_patch(self, obj: _Object, part: str = "") -> None:
        operations: list[Any] = []
        for _ in range(self.random.choice((1, 1, 2))):
            tree = self.mutator.changed(obj.kind, obj.tree, 1)
            places = self.mutator.places(obj.kind, tree)
            if not places:
                break
            place = self.random.choice(places)
            pointer = "".join(f"/{str(one).replace('~', '~0').replace('/', '~1')}" for one in place.steps)
            name = self.random.choice(("add", "add", "replace", "replace", "remove", "test", "copy", "move", "odd"))
            one: dict[str, Any] = {"op": name, "path": pointer}
            if name in ("copy", "move"):
                one["from"] = self.random.choice(("/spec", "/metadata/labels", pointer))
            elif name != "remove":
                one["value"] = place.owner[place.steps[-1]]
            if self.chance(0.1) and isinstance(place.steps[-1], int):
                one["path"] = pointer.rpartition("/")[0] + "/-"
            operations.append(one)
        self.patch(obj, "json", operations, part)

    def apply(self, obj: _Object, part: str = "") -> None:
        tree = self.renewed(obj, self.random.choice((0, 1, 1, 2)))
        if self.chance(0.5):
            remaining = self.mutator.places(obj.kind, tree)
            chosen = self.random.sample(remaining, min(len(remaining), 2))
            whole, tree = tree, {"metadata": {"name": obj.name}}
            for place in chosen:
                _merge(tree, _fragment(whole, place.steps, removed=False))
        more = {"fieldManager": self.random.choice(("me", "you", "them"))}
        if self.chance(0.35):
            more["force"] = self.random.choice(("true", "false", "odd"))
        if self.chance(0.02):
            more = {}
        self.patch(obj, "apply", self.body(obj.kind, tree), part, more)

    def subresource(self, obj: _Object) -> None:
        if not obj.kind.subresources:
            self.read(obj)
            return
        part = self.random.choice([*obj.kind.subresources, *(("status",) * ("status" in obj.kind.subresources))])
        if part == "scale":
            self.scale(obj)
        elif part in ("binding", "eviction", "token"):
            body = self.random.choice(({}, {"metadata": {"name": obj.name}}, {"target": {"kind": "Node", "name": "a"}}))
            self.add({"do": f"POST {obj.path()}/{part}", "body": body})
        else:
            verbs = (self.update, self.merge, self.strategic, self.json_patch, self.apply)
            self.random.choice(verbs)(obj, f"/{part}")

    def scale(self, obj: _Object) -> None:
        replicas = self.random.choice((0, 1, 3, -1, "x", 2**31, None))
        body: Any = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": obj.name}}
        body["spec"] = {"replicas": replicas}
        if self.chance(0.3):
            body["metadata"]["resourceVersion"] = self.reference("rv")
        match self.random.randint(0, 4):
            case 0:
                self.add({"do": f"GET {obj.path()}/scale"})
            case 1:
                self.add({"do": f"PUT {obj.path()}/scale", "body": body})
            case 2:
                self.patch(obj, "merge", {"spec": {"replicas": replicas}}, "/scale")
            case 3:
                self.patch(obj, "apply", body, "/scale", {"fieldManager": "me"})
            case _:
                value = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
                self.patch(obj, "json", value, "/scale")

    def delete_options(self) -> tuple[dict[str, str], Any]:
        policies = ("Background", "Orphan", "Foreground", "odd")
        query: dict[str, str] = {"propagationPolicy": self.random.choice(policies)} if self.chance(0.3) else {}
        if self.chance(0.1):
            query["gracePeriodSeconds"] = self.random.choice(("0", "1", "-1", "odd"))
        if self.chance(0.1):
            query["dryRun"] = "All"
        body: Any = None
        if self.chance(0.3):
            body = {"apiVersion": "v1", "kind": "DeleteOptions"}
            more: tuple[dict[str, Any], ...] = (
                {"propagationPolicy": self.random.choice(policies)},
                {"gracePeriodSeconds": self.random.choice((0, 5, -1))},
                {"preconditions": {"uid": self.reference("uid")}},
                {"preconditions": {"resourceVersion": self.reference("rv")}},
                {"preconditions": {"uid": "odd"}},
                {"orphanDependents": True},
                {"dryRun": ["All"]},
                {"odd": 1},
            )
            body |= self.random.choice(more)
        return query, body

    def delete(self, obj: _Object) -> None:
        query, body = self.delete_options()
        step: Step = {"do": f"DELETE {obj.path()}"}
        self.add(step | ({"query": query} if query else {}) | ({"body": body} if body else {}))

    def collection_delete(self, obj: _Object) -> None:
        query, body = self.delete_options()
        if not obj.kind.namespaced:
            query["fieldSelector"] = f"metadata.name={obj.name}"
        elif self.chance(0.4):
            query["labelSelector"] = self.random.choice(_SELECTORS)
        elif self.chance(0.2):
            query["fieldSelector"] = self.random.choice(_FIELDS)
        step: Step = {"do": f"DELETE {obj.kind.collection()}", "query": query}
        self.add(step | ({"body": body} if body else {}))

    def odd_path(self, obj: _Object) -> None:
        method = self.random.choice(("GET", "GET", "GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"))
        path = self.random.choice((*_PATHS, f"{obj.path()}/odd", f"{obj.path()}-missing", f"{obj.kind.collection()}/"))
        if method == "DELETE" and "namespaces/${ns}/" not in path:
            method = "GET"
        step: Step = {"do": f"{method} {path}"}
        if method in ("GET", "HEAD") and path.endswith(f"{obj.kind.plural}/") and not obj.kind.namespaced:
            step["query"] = {"fieldSelector": f"metadata.name={obj.name}"}  # not the objects of other sequences
        if method in ("PUT", "POST", "PATCH"):
            step["body"] = self.body(obj.kind, obj.tree)
        if method == "PATCH":
            step["type"] = self.random.choice(("merge", "application/json", "json", "strategic", "apply"))
        self.add(step)


def sequence(corpus: Corpus, seed: str) -> list[Step]:
    """The sequence of a seed."""
    return _Writer(corpus, Random(seed)).write()


def _fragment(tree: Any, steps: tuple[str | int, ...], *, removed: bool) -> Any:
    """The maps that lead to a place, up to the first list, with what is there."""
    step = steps[0]
    if len(steps) == 1 or isinstance(steps[1], int) or not isinstance(tree[step], dict):
        return {step: None if removed else copy.deepcopy(tree[step])}
    return {step: _fragment(tree[step], steps[1:], removed=removed)}


def _merge(into: Any, tree: Any) -> None:
    for name, value in tree.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _maps(tree: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if isinstance(tree, dict):
        found.append(tree)
        for value in tree.values():
            found += _maps(value)
    elif isinstance(tree, list):
        for value in tree:
            found += _maps(value)
    return found
