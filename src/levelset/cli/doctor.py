"""`levelset doctor`: checks the kubeconfig, server, credentials, CRDs and permissions, with a next step for each."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import click

from levelset.cli.output import mark, output_option, progress, reporting_errors, show_json
from levelset.cli.targets import LoadedTargets, load_targets
from levelset.client import Call, Client, Response
from levelset.codegen.crd import crds_of
from levelset.codegen.rbac import Permission, infer_permissions
from levelset.errors import ApiError, ConfigError, Forbidden, LevelsetError, NotFound, Unauthorized, Unreachable
from levelset.objects import Ref, Unstructured
from levelset.objects.kind_definition import definition_of
from levelset.runtime.manager.crd_install import CRD_GVK, is_established

__all__ = ["CheckResult", "doctor", "run_checks"]

_SKEW: Final = 5.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check: its level (ok, warn, fail, info), and the next step if it is not ok."""

    level: str
    check: str
    message: str
    next: str = ""


CheckResults = AsyncGenerator[CheckResult, None]


async def run_checks(kubeconfig: str | None, context: str | None, project: LoadedTargets) -> Sequence[CheckResult]:
    """Runs all checks in order; checks that depend on a failed one are skipped."""
    try:
        client = await Client.connect(kubeconfig, context=context)
    except ConfigError as error:
        hint = "pass another file with --kubeconfig, or start a local server: levelset serve"
        return [CheckResult("fail", "kubeconfig", str(error), hint)]
    found = [CheckResult("ok", "kubeconfig", f"valid; the namespace is {client.namespace}")]
    async with client:
        for check in (_server, _clock, _identity):
            found += [one async for one in check(client)]
            if found[-1].level == "fail":
                return found
        for name, project_check in (("definitions", _definitions), ("permissions", _permissions)):
            try:
                found += [one async for one in project_check(client, project)]
            except LevelsetError as error:
                found.append(CheckResult("fail", name, f"cannot be checked: {error}", "is this an API server?"))
    return found


async def _server(client: Client) -> CheckResults:
    try:
        response = await _get(client, "/version")
        version = json.loads(response.body).get("gitVersion", "of an unknown version")
    except Unreachable as error:
        yield CheckResult("fail", "server", str(error), "is it running, and is the address in the kubeconfig right?")
    except Unauthorized as error:
        yield _rejected(error)
    except (ApiError, ValueError, AttributeError) as error:
        yield CheckResult(
            "fail", "server", f"it does not respond as an API server does: {error}", "is this its address?"
        )
    else:
        yield CheckResult("ok", "server", f"Kubernetes {version}")


def _rejected(error: Unauthorized) -> CheckResult:
    return CheckResult("fail", "credentials", str(error), "the token or certificate is not accepted: renew it")


async def _clock(client: Client) -> CheckResults:
    began = time.time()
    try:
        stamp = (await _get(client, "/version")).headers.get("date")
        skew = parsedate_to_datetime(stamp or "").timestamp() - began
    except (ValueError, LevelsetError):
        yield CheckResult("info", "clock", "the server sends no Date header")
        return
    if abs(skew) <= _SKEW:
        yield CheckResult("ok", "clock", "in sync with the server")
    else:
        hint = "leases and tokens depend on it: synchronize the clock (NTP)"
        yield CheckResult(
            "warn", "clock", f"the server's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}", hint
        )


async def _identity(client: Client) -> CheckResults:
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        review = await client.create(wanted)
    except Unauthorized as error:
        yield _rejected(error)
    except NotFound:
        yield CheckResult("info", "credentials", "the server has no SelfSubjectReview API")
    except (ApiError, LevelsetError) as error:
        yield CheckResult("warn", "credentials", f"the SelfSubjectReview failed: {error}")
    else:
        status: Any = review.tree.get("status") or {}
        user: Any = status.get("userInfo") or {}
        yield CheckResult("ok", "credentials", f"accepted as {user.get('username', 'an unknown user')}")


async def _definitions(client: Client, project: LoadedTargets) -> CheckResults:
    own = {definition_of(one).gvk.group for one in project.own_kinds}
    kinds = [*project.own_kinds, *project.watched_kinds]
    for wanted in await asyncio.to_thread(crds_of, kinds, hubs=project.hubs):  # reads the classes' source files
        ref: Ref[Unstructured] = Ref(CRD_GVK, wanted["metadata"]["name"])
        try:
            there = await client.find(ref)
        except Forbidden as error:
            yield CheckResult(
                "warn",
                f"crd {ref.name}",
                f"cannot be read: {error}",
                "permission to get CustomResourceDefinitions is missing",
            )
            continue
        yield _definition(wanted, there, is_own=wanted["spec"]["group"] in own)


def _definition(wanted: Any, there: Unstructured | None, *, is_own: bool) -> CheckResult:
    what = f"crd {wanted['metadata']['name']}"
    hint = (
        "levelset install, or levelset generate crds and kubectl apply"
        if is_own
        else "install the project that defines it"
    )
    if there is None:
        return CheckResult("fail", what, "is not installed", hint)
    if not is_established(there):
        return CheckResult("fail", what, _not_established(there.tree), "kubectl describe crd shows more")
    if not is_own:
        return CheckResult("ok", what, "is installed by another project")
    if _schemas(there.tree) != _schemas(wanted):
        return CheckResult("warn", what, "is installed, but differs from the class", hint)
    return CheckResult("ok", what, "is installed and up to date")


async def _permissions(client: Client, project: LoadedTargets) -> CheckResults:
    if not project.controllers:
        return
    missing: list[str] = []
    checked = 0
    # In a thread, since it reads the reconcilers' source files.
    for permission in await asyncio.to_thread(infer_permissions, project.controllers, extras=project.permissions):
        for verb in permission.verbs:
            checked += 1
            if not await _is_allowed(client, permission, verb):
                missing.append(f"{verb} {permission.resource}{'.' if permission.group else ''}{permission.group}")
    if missing:
        hint = "levelset generate rbac writes the rules; apply them with kubectl"
        yield CheckResult("fail", "permissions", f"these credentials lack {', '.join(missing)}", hint)
    else:
        yield CheckResult("ok", "permissions", f"all {checked} that the controllers need")


async def _is_allowed(client: Client, permission: Permission, verb: str) -> bool:
    resource, _, part = permission.resource.partition("/")
    attributes = {
        "verb": verb,
        "group": permission.group,
        "resource": resource,
        "namespace": permission.namespace or "",
    }
    if part:
        attributes["subresource"] = part
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    reviewed: Any = (await client.create(review)).tree
    status: Any = reviewed.get("status") or {}
    return bool(status.get("allowed"))


async def _get(client: Client, path: str) -> Response:
    return await client.send(Call(method="GET", path=path, about=f"get {path}", timeout=10.0))


def _conditions(tree: Any) -> list[Any]:
    status: Any = tree.get("status") or {}
    return list(status.get("conditions") or ())


def _not_established(tree: Any) -> str:
    bad = [one.get("message") or one["type"] for one in _conditions(tree) if one["status"] != "True"]
    return f"is not established: {'; '.join(bad) or 'not yet'}"


def _schemas(tree: Any) -> dict[str, Any]:
    """The schemas of a CRD by version."""
    return {one["name"]: one.get("schema") for one in tree["spec"]["versions"]}


@click.command()
@click.argument("targets", metavar="[MODULE:CONTROLLERS]...", nargs=-1)
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@output_option
def doctor(targets: tuple[str, ...], kubeconfig: str | None, context: str | None, output: str) -> None:
    """Diagnoses problems: kubeconfig, server, clock, credentials, CRDs and permissions.

    With controllers, it checks whether the credentials allow what the controllers do, and whether the CRDs on the
    cluster are those of their classes.

    Example: levelset doctor website:controllers

    Exit codes: 0 all checks passed, 1 a check failed, 2 usage error.
    """
    with reporting_errors():
        with progress("importing the controllers", output=output):
            project = load_targets(targets)
        with progress("checking the cluster", output=output):
            found = asyncio.run(run_checks(kubeconfig, context, project))
    _show(found, output)
    if any(one.level == "fail" for one in found):
        raise SystemExit(1)


def _show(found: Sequence[CheckResult], output: str) -> None:
    if output == "json":
        rows: list[dict[str, Any]] = [
            {"check": one.check, "level": one.level, "message": one.message, "next": one.next} for one in found
        ]
        show_json(rows)
        return
    for one in found:
        click.echo(f"{mark(one.level)} {one.check}: {one.message}")
        if one.next:
            click.echo(f"       next: {one.next}")
