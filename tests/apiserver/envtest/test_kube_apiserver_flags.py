"""The flags of kube-apiserver that envtest gives: followed, without effect, or unknown."""

from pathlib import Path

import pytest

from levelset.apiserver.envtest.kube_apiserver_flags import FOLLOWED, NO_EFFECT, help_text, parse_flags
from levelset.errors import ConfigError

# What envtest of controller-runtime 0.24 starts kube-apiserver with.
ENVTEST = [
    "--allow-privileged=true",
    "--authorization-mode=RBAC",
    "--bind-address=127.0.0.1",
    "--cert-dir=/tmp/k8s",
    "--client-ca-file=/tmp/k8s/client-cert-auth-ca.crt",
    "--disable-admission-plugins=ServiceAccount",
    "--etcd-servers=http://127.0.0.1:40001",
    "--secure-port=40002",
    "--service-account-issuer=https://127.0.0.1:40002/",
    "--service-account-key-file=/tmp/k8s/sa-signer.crt",
    "--service-account-signing-key-file=/tmp/k8s/sa-signer.key",
    "--service-cluster-ip-range=10.0.0.0/24",
]


def test_the_flags_of_envtest_are_followed_without_a_note() -> None:
    found = parse_flags(ENVTEST)
    assert (found.host, found.port, found.service_range) == ("127.0.0.1", 40002, "10.0.0.0/24")
    assert (found.certificate, found.key) == (Path("/tmp/k8s/apiserver.crt"), Path("/tmp/k8s/apiserver.key"))
    assert found.client_authority == Path("/tmp/k8s/client-cert-auth-ca.crt")
    assert (found.service_accounts, found.anonymous, found.tokens, found.audit_log) == (False, True, None, None)
    assert found.notes == ()


def test_a_value_may_be_the_next_word_and_the_last_one_counts() -> None:
    found = parse_flags(["--secure-port", "1", "--anonymous-auth", "--secure-port", "2", "--audit-log-path=-"])
    assert (found.port, found.anonymous, found.audit_log) == (2, True, "-")
    assert parse_flags(["--anonymous-auth=false"]).anonymous is False


def test_a_certificate_of_its_own_replaces_that_of_the_folder() -> None:
    found = parse_flags(["--cert-dir=/a", "--tls-cert-file=/b.crt", "--tls-private-key-file=/b.key"])
    assert (found.certificate, found.key) == (Path("/b.crt"), Path("/b.key"))


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (["--feature-gates=A=true", "--v", "4"], "without effect here: --feature-gates, --v"),
        (["--disable-admission-plugins=ServiceAccount,Priority"], "Priority cannot be switched off"),
        (["--enable-admission-plugins=PodSecurity,AlwaysPullImages"], "there is no AlwaysPullImages"),
        (["--authorization-mode=AlwaysAllow"], "RBAC is used in place of AlwaysAllow"),
    ],
)
def test_what_has_no_effect_is_said(given: list[str], note: str) -> None:
    (found,) = parse_flags(given).notes
    assert note in found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--basic-auth-file=x", "unknown flag: --basic-auth-file"),
        ("serve", "unknown argument: 'serve'"),
        ("--secure-port=http", "--secure-port: 'http' is not a port"),
        ("--anonymous-auth=maybe", "--anonymous-auth: 'maybe' is not a boolean"),
        ("--tls-cert-file=a", "--tls-private-key-file go together"),
    ],
)
def test_what_cannot_be_followed_is_an_error_that_names_the_flag(given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        parse_flags([given])


def test_the_help_names_every_flag_once_and_no_insecure_port() -> None:
    lines = [line.split()[0] for line in help_text().splitlines() if line.startswith("      --")]
    assert sorted(lines) == sorted(f"--{name}" for name in {*FOLLOWED, *NO_EFFECT})
    # envtest searches it, and adds the flag if it is there.
    assert "--insecure-port" not in lines
