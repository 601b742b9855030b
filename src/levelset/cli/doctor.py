"""`levelset doctor`: what is wrong with a kubeconfig, with permissions and definitions, and what to do about it.

The questions of `levelset doctor`, each answered by a Symptom: whether it is well, and what to do if it is not.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import click

from levelset.cli.output import mark, output_option, show_json, speaking, working
from levelset.cli.targets import Gathered, gather
from levelset.client import Answer, Call, Client
from levelset.codegen.crd import crds_of
from levelset.codegen.rbac import Permission, infer_permissions
from levelset.errors import ApiError, ConfigError, Forbidden, LevelsetError, NotFound, Unauthorized, Unreachable
from levelset.objects import Ref, Unstructured
from levelset.objects.kind_definition import definition_of
from levelset.runtime.manager.crd_install import DEFINITION, is_established

__all__ = ["Symptom", "doctor", "examine"]

_SKEW: Final = 5.0


@dataclass(frozen=True, slots=True)
class Symptom:
    """What one question gave: `how` it is (ok, warn, fail, info), and what to do `next` if it is not well."""

    how: str
    what: str
    said: str
    next: str = ""


Symptoms = AsyncGenerator[Symptom, None]


async def examine(kubeconfig: str | None, context: str | None, project: Gathered) -> Sequence[Symptom]:
    """All symptoms, in the order in which they matter: what depends on a thing that fails is not asked."""
    try:
        client = await Client.connect(kubeconfig, context=context)
    except ConfigError as error:
        hint = "name another file with --kubeconfig, or start a server of your own: levelset serve"
        return [Symptom("fail", "kubeconfig", str(error), hint)]
    found = [Symptom("ok", "kubeconfig", f"understood; objects are looked for in namespace {client.namespace}")]
    async with client:
        for question in (_server, _clock, _identity):
            found += [one async for one in question(client)]
            if found[-1].how == "fail":
                return found
        for what, asked in (("definitions", _definitions), ("permissions", _permissions)):
            try:
                found += [one async for one in asked(client, project)]
            except LevelsetError as error:
                found.append(Symptom("fail", what, f"cannot be asked for: {error}", "is this an API server?"))
    return found


async def _server(client: Client) -> Symptoms:
    try:
        answer = await _get(client, "/version")
        version = json.loads(answer.body).get("gitVersion", "of an unknown version")
    except Unreachable as error:
        yield Symptom("fail", "server", str(error), "is it running, and is the address in the kubeconfig right?")
    except (ApiError, ValueError, AttributeError) as error:
        yield Symptom("fail", "server", f"it does not answer as an API server does: {error}", "is this its address?")
    else:
        yield Symptom("ok", "server", f"Kubernetes {version}")


async def _clock(client: Client) -> Symptoms:
    began = time.time()
    try:
        stamp = (await _get(client, "/version")).headers.get("date")
        skew = parsedate_to_datetime(stamp or "").timestamp() - began
    except (ValueError, LevelsetError):
        yield Symptom("info", "clock", "the server does not say what time it is")
        return
    if abs(skew) <= _SKEW:
        yield Symptom("ok", "clock", "the same as the server's")
    else:
        hint = "leases and tokens depend on it: set the clock by the network (NTP)"
        yield Symptom("warn", "clock", f"the server's is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}", hint)


async def _identity(client: Client) -> Symptoms:
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        told = await client.create(wanted)
    except Unauthorized as error:
        yield Symptom("fail", "credentials", str(error), "the token or certificate is not accepted: renew it")
    except NotFound:
        yield Symptom("info", "credentials", "the server does not tell who one is")
    except (ApiError, LevelsetError) as error:
        yield Symptom("warn", "credentials", f"the server does not tell who one is: {error}")
    else:
        status: Any = told.tree.get("status") or {}
        user: Any = status.get("userInfo") or {}
        yield Symptom("ok", "credentials", f"accepted as {user.get('username', 'somebody')}")


async def _definitions(client: Client, project: Gathered) -> Symptoms:
    own = {definition_of(one).gvk.group for one in project.own_kinds}
    kinds = [*project.own_kinds, *project.followed_kinds]
    for wanted in await asyncio.to_thread(crds_of, kinds, hubs=project.hubs):  # reads the classes' source files
        ref: Ref[Unstructured] = Ref(DEFINITION, wanted["metadata"]["name"])
        try:
            there = await client.find(ref)
        except Forbidden as error:
            yield Symptom("warn", f"definition {ref.name}", f"cannot be read: {error}", "ask for leave to get it")
            continue
        yield _definition(wanted, there, is_own=wanted["spec"]["group"] in own)


def _definition(wanted: Any, there: Unstructured | None, *, is_own: bool) -> Symptom:
    what = f"definition {wanted['metadata']['name']}"
    hint = "levelset install, or levelset generate crds and kubectl apply" if is_own else "install what it comes from"
    if there is None:
        return Symptom("fail", what, "is not there", hint)
    if not is_established(there):
        return Symptom("fail", what, _trouble(there.tree), "kubectl describe crd shows more")
    if not is_own:
        return Symptom("ok", what, "is there, and somebody else's")
    if _schemas(there.tree) != _schemas(wanted):
        return Symptom("warn", what, "is there, but not as the class is now", hint)
    return Symptom("ok", what, "is there, and as the class is")


async def _permissions(client: Client, project: Gathered) -> Symptoms:
    if not project.controllers:
        return
    missing: list[str] = []
    asked = 0
    # In a thread, since it reads the reconcilers' source files.
    for permission in await asyncio.to_thread(infer_permissions, project.controllers, extras=project.permissions):
        for verb in permission.verbs:
            asked += 1
            if not await _may(client, permission, verb):
                missing.append(f"{verb} {permission.resource}{'.' if permission.group else ''}{permission.group}")
    if missing:
        hint = "levelset generate rbac writes the rules; apply them with kubectl"
        yield Symptom("fail", "permissions", f"these credentials may not {', '.join(missing)}", hint)
    else:
        yield Symptom("ok", "permissions", f"all {asked} that the controllers need")


async def _may(client: Client, permission: Permission, verb: str) -> bool:
    resource, _, part = permission.resource.partition("/")
    asked = {"verb": verb, "group": permission.group, "resource": resource, "namespace": permission.namespace or ""}
    if part:
        asked["subresource"] = part
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    told: Any = (await client.create(review)).tree
    status: Any = told.get("status") or {}
    return bool(status.get("allowed"))


async def _get(client: Client, path: str) -> Answer:
    return await client.send(Call(method="GET", path=path, words=f"ask {path}", timeout=10.0))


def _conditions(tree: Any) -> list[Any]:
    status: Any = tree.get("status") or {}
    return list(status.get("conditions") or ())


def _trouble(tree: Any) -> str:
    bad = [one.get("message") or one["type"] for one in _conditions(tree) if one["status"] != "True"]
    return f"is not established: {'; '.join(bad) or 'not yet'}"


def _schemas(tree: Any) -> dict[str, Any]:
    """What matters of each version."""
    return {one["name"]: one.get("schema") for one in tree["spec"]["versions"]}


@click.command()
@click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1)
@click.option("--kubeconfig", metavar="PATH", help="The file that says where the cluster is.")
@click.option("--context", metavar="NAME", help="The context in it.")
@output_option
def doctor(targets: tuple[str, ...], kubeconfig: str | None, context: str | None, output: str) -> None:
    """Looks for what is wrong: the kubeconfig, the server, permissions, definitions and the clock.

    With controllers, it asks whether they may do what they do, and whether the definitions on the cluster are those of
    their classes.

    Example: levelset doctor website:controllers

    Exit codes: 0 all is well, 1 something is wrong, 2 it was not understood.
    """
    with speaking():
        with working("loads the controllers", output=output):
            project = gather(targets)
        with working("asks the cluster", output=output):
            found = asyncio.run(examine(kubeconfig, context, project))
    _show(found, output)
    if any(one.how == "fail" for one in found):
        raise SystemExit(1)


def _show(found: Sequence[Symptom], output: str) -> None:
    if output == "json":
        rows: list[dict[str, Any]] = [
            {"how": one.how, "what": one.what, "said": one.said, "next": one.next} for one in found
        ]
        show_json(rows)
        return
    for one in found:
        click.echo(f"{mark(one.how)} {one.what}: {one.said}")
        if one.next:
            click.echo(f"       next: {one.next}")
