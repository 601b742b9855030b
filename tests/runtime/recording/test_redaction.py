"""Secret values are in no byte of a recording, and their stand-ins replay equally."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from levelset import Context, Controller, Object, ObjectMeta, Ref, owns, references
from levelset.runtime.recording import Recording, read_recording
from levelset.runtime.recording.entries import Answer, Batch, BatchEvent, Entry, Request, ScopeEntry
from levelset.runtime.recording.recording_file import Part, read_blocks
from levelset.runtime.recording.redaction import Redactor, stand_in
from levelset.testing import Cluster
from levelset.testing.replay import assert_replays
from tests.testing.replay.operators import Config, Website, config, record, site

PASSWORD = "hunter2-is-Secret"
MULTILINE = 'first "line"\nsecond line of the key'
TOKEN = "tok-4711-user-named"
PIN = "1234"


class Secret(Object, api="v1"):
    data: dict[str, str] = {}


def parts(entries: list[Entry]) -> list[Part]:
    """A part for each entry, with the path that a recorder gives it."""
    found = [Part() for _ in entries]
    for part, one in zip(found, entries, strict=True):
        part.add([one], paths_of(one), bytearray())
    return found


def paths_of(entry: Entry) -> Iterator[str]:
    if isinstance(entry, Request):
        yield entry.path
    elif isinstance(entry, ScopeEntry):
        yield f"/{entry.kind.lower()}"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def copy_secret(found: Website, ctx: Context) -> None:
    """Copies a Secret into a ConfigMap, plain and encoded, and then fails with it in its message."""
    secret = await ctx.get(Secret, "credentials", namespace=found.namespace)
    plain = {name: base64.b64decode(value).decode() for name, value in secret.data.items()}
    await ctx.apply(config(found, password=plain["password"], url=f"db://user:{plain['password']}@db"), owner=found)
    metadata = {"name": "copies", "namespace": found.namespace}
    await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": plain["key"]}})
    ctx.record(found, "Leaked", f"uses {plain['password']}")
    raise ValueError(f"cannot log in with {plain['password']} and {found.spec.token}")


def names(found: Website) -> list[Ref[Secret]]:
    return [Ref(Secret, "credentials", found.namespace)]


CONTROLLER = Controller(Website, copy_secret, owns(Config), references(Secret, names), name="websites")


async def use(cluster: Cluster) -> None:
    # The copy is there before the Secret is: it is listed first, and replaced when the recording is closed.
    await cluster.create(Config(metadata=ObjectMeta(name="early"), data={"copy": PASSWORD}))
    data = {"password": encoded(PASSWORD), "key": encoded(MULTILINE), "pin": encoded(PIN)}
    await cluster.create(Secret(metadata=ObjectMeta(name="credentials"), data=data))
    await cluster.create(site(token=TOKEN))
    await cluster.advance(5, allow_errors=True)


def test_planted_secrets_are_nowhere_in_the_file_and_it_replays(tmp_path: Path) -> None:
    path = tmp_path / "run"
    record(Recording(path, redact=["Website.spec.token"]), CONTROLLER, use=use, allow_errors=True)
    written = b"".join(read_blocks(path))
    for value in (PASSWORD, MULTILINE, TOKEN):
        assert value.encode() not in written
        assert encoded(value).encode() not in written
        assert value.replace("\n", "\\n").replace('"', '\\"').encode() not in written
    assert encoded(PIN).encode() not in written
    assert b"second line" not in written
    assert assert_replays(path, CONTROLLER).requests >= 2


KUBECONFIG = """\
apiVersion: v1
kind: Config
users:
- name: admin
  user:
    token: sha256~Kx82mPlantedToken99
"""
API_TOKEN = "sha256~Kx82mPlantedToken99"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def spread(found: Website, ctx: Context) -> None:
    """Uses what is in a Secret in all the places where operators put it."""
    secret = await ctx.get(Secret, "credentials", namespace=found.namespace)
    plain = {name: base64.b64decode(value).decode() for name, value in secret.data.items()}
    token = plain["kubeconfig"].splitlines()[-1].rpartition(" ")[2]
    env = [{"name": "PASSWORD", "value": plain["password"]}, {"name": "TOKEN", "value": token}]
    container = {
        "name": "app",
        "image": "nginx",
        "env": env,
        "args": [f"--url=http://x/?p={quote(plain['key'], safe='')}"],
    }
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "app", "namespace": found.namespace}
    await ctx.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    auth = base64.b64encode(f"robot:{plain['password']}".encode()).decode()
    await ctx.apply(config(found, auth=auth), owner=found)
    ctx.record(found, "Used", f"Authorization: Bearer {token}", warning=True)
    raise ConnectionError(f"401 for Bearer {token} with {plain['key']!r}")


SPREADING = Controller(Website, spread, owns(Config), references(Secret, names), name="websites")


async def apply_as_kubectl_does(cluster: Cluster) -> None:
    given = {"password": PASSWORD, "key": MULTILINE, "kubeconfig": KUBECONFIG}
    applied = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credentials"}, "stringData": given}
    data = {name: encoded(value) for name, value in given.items()}
    metadata = ObjectMeta(name="credentials", annotations={APPLIED: json.dumps(applied)})
    await cluster.create(Secret(metadata=metadata, data=data))
    await cluster.create(site())
    await cluster.advance(5, allow_errors=True)


def test_secrets_in_annotations_env_values_urls_events_errors_and_kubeconfigs_are_nowhere_in_the_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run"
    record(path, SPREADING, use=apply_as_kubectl_does, allow_errors=True)
    written = b"".join(read_blocks(path))
    assert b"configmaps" in written
    assert b"deployments" in written
    for value in (PASSWORD, API_TOKEN, "Kx82mPlantedToken99", "second line of the key"):
        assert value.encode() not in written
        assert quote(value, safe="").encode() not in written
    for offset in range(3):
        middle = base64.b64encode(bytes(offset) + PASSWORD.encode())[4:-4]
        assert middle not in written
    assert assert_replays(path, SPREADING).requests >= 2


def test_a_recording_without_redaction_has_the_values(tmp_path: Path) -> None:
    record(Recording(tmp_path / "run", redact_secrets=False), CONTROLLER, use=use, allow_errors=True)
    assert PASSWORD.encode() in b"".join(read_blocks(tmp_path / "run"))


def test_headers_with_credentials_are_not_recorded(tmp_path: Path) -> None:
    record(tmp_path / "run", CONTROLLER, use=use, allow_errors=True)
    assert b"uthorization" not in b"".join(read_blocks(tmp_path / "run"))
    assert {one.content_type for one in read_recording(tmp_path / "run") if isinstance(one, Request)} <= {
        "application/apply-patch+yaml",
        "application/merge-patch+json",
        "application/json",
        "",
    }


def test_a_stand_in_is_as_long_and_of_the_same_classes_and_depends_on_the_key() -> None:
    value = "Ab1-äß€😀\n".encode()
    found = stand_in(value, b"key")
    assert len(found) == len(value)
    assert found != stand_in(value, b"other") != value
    text = found.decode()
    assert text[0].isupper()
    assert text[1].islower()
    assert text[2].isdigit()
    assert text[3] == "-"
    assert text[-1] == "\n"
    assert len(stand_in(b"\xff\x00\x01", b"key")) == 3


def test_issued_tokens_are_secret() -> None:
    redactor = Redactor()
    answer = b'{"kind":"TokenRequest","status":{"token":"eyJhbGciOi.very.secret"}}'
    path = "/api/v1/namespaces/x/serviceaccounts/y/token"
    redactor.learn(parts([Request(0, 1, 1, "POST", path, "", "", b"{}"), Answer(0, 1, 201, {}, answer)]))
    assert b"very.secret" not in redactor.clean(answer)


def test_kept_texts_are_not_secret() -> None:
    redactor = Redactor(keep=["postgres"])
    raw = b'{"kind":"Secret","data":{"user":"cG9zdGdyZXM="}}'
    scope = ScopeEntry(0, 0, "", "v1", "Secret", None, "", "", is_metadata=False, is_changed=False)
    redactor.learn(parts([scope, Batch(0, 0, "1", [BatchEvent(3, raw)])]))
    assert redactor.clean(raw) == raw


def test_the_values_of_a_list_of_secrets_are_secret() -> None:
    redactor = Redactor()
    raw = b'{"kind":"SecretList","metadata":{},"items":[{"data":{"password":"aHVudGVyMi1pcw=="}}]}'
    redactor.learn(parts([Request(0, 1, 5, "GET", "/api/v1/secrets", "", "", b""), Answer(0, 5, 200, {}, raw)]))
    assert b"aHVudGVyMi1pcw" not in redactor.clean(raw)


def test_a_secret_that_is_watched_later_is_learned_too() -> None:
    redactor = Redactor()
    path = "/api/v1/namespaces/x/configmaps/y"
    redactor.learn(parts([Request(0, 1, 1, "GET", path, "", "", b""), Answer(0, 1, 200, {}, b"{}")]))
    redactor.learn(parts([ScopeEntry(0, 7, "", "v1", "Secret", None, "", "", is_metadata=False, is_changed=False)]))
    raw = b'{"kind":"Secret","data":{"password":"aHVudGVyMi1pcw=="}}'
    redactor.learn(parts([Batch(0, 7, "1", [BatchEvent(0, b""), BatchEvent(1, raw), BatchEvent(2, b"12")])]))
    assert b"aHVudGVyMi1pcw" not in redactor.clean(raw)
