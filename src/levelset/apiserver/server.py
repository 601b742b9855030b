"""The API server as one object: `ApiServer` builds, starts and stops its components on top of a storage.

```python
async with ApiServer() as server:
    print(server.url, server.token)
```

`Kinds` is the catalog with the built-in kinds and the CRD registry that updates it. `build_components` wires the state,
the HTTP handler (`app.py`) and the controllers (`controllers/`) together.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Any, Final, Self, cast

import msgspec
from msgspec.structs import replace
from msgspec.structs import replace as replace_fields

from levelset.apiserver.admission.chain import AdmissionChain, AdmissionPlugin
from levelset.apiserver.admission.pod_security.namespace_policies import PodSecurity
from levelset.apiserver.admission.policies.policy_index import PolicyIndex
from levelset.apiserver.admission.webhooks import WebhookIndex
from levelset.apiserver.app import App
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import Authenticator
from levelset.apiserver.authn.secret_box import SecretBox
from levelset.apiserver.authn.service_account_tokens import ServiceAccountTokens
from levelset.apiserver.authn.token_file import new_token
from levelset.apiserver.authn.users import ADMIN, MASTERS, User
from levelset.apiserver.authz.rbac import RbacAuthorizer
from levelset.apiserver.compaction import Compaction, PeriodicCompaction
from levelset.apiserver.controllers.bootstrap_objects import ServingAddress, reconcile_bootstrap_objects
from levelset.apiserver.controllers.bootstrap_roles import reconcile_bootstrap_roles, reconcile_flow_control
from levelset.apiserver.controllers.cluster_authentication import ClusterAuthenticationController
from levelset.apiserver.controllers.controller_lease import ControllerLease
from levelset.apiserver.controllers.crd_cleanup import CrdCleanup
from levelset.apiserver.controllers.event_expiry import EventExpiryController
from levelset.apiserver.controllers.garbage_collector import GarbageCollector
from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.controllers.namespace_defaults import NamespaceDefaultsController
from levelset.apiserver.controllers.namespaces import NamespaceController
from levelset.apiserver.controllers.policy_status import PolicyStatusController
from levelset.apiserver.controllers.resource_quotas import ResourceQuotaController
from levelset.apiserver.controllers.role_aggregation import RoleAggregationController
from levelset.apiserver.controllers.volume_protection import VolumeProtectionController
from levelset.apiserver.discovery import DiscoveryPages, version_info
from levelset.apiserver.health import Health
from levelset.apiserver.openapi.endpoint import OpenApiEndpoint
from levelset.apiserver.package_data import wait_package_data
from levelset.apiserver.registry.builtin.kind_table import builtin_catalog
from levelset.apiserver.registry.builtin.pod_admission import PodAdmission
from levelset.apiserver.registry.builtin.services import DEFAULT_SERVICE_CIDR, ServiceStrategy
from levelset.apiserver.registry.builtin.storage_and_devices import admin_access_checks
from levelset.apiserver.registry.builtin.strategies import builtin_rules
from levelset.apiserver.registry.builtin.volumes import ClaimAdmission
from levelset.apiserver.registry.conversion_webhook import WebhookConverter
from levelset.apiserver.registry.crd import definitions
from levelset.apiserver.registry.crd.definitions import CrdRegistry
from levelset.apiserver.registry.service_addresses import ServiceAddresses
from levelset.apiserver.request_limits import InFlightLimiter, UserLimiter, UserLimits
from levelset.apiserver.resources.server_state import ServerState, Tree, utc_now
from levelset.apiserver.resources.storage_follower import StorageFollower
from levelset.apiserver.server_metrics import ServerMetrics
from levelset.apiserver.verbs.component_statuses import read_component_statuses
from levelset.apiserver.verbs.computed_kinds import ComputedSource, computed_handler, computed_resource
from levelset.apiserver.verbs.subresources.binding import bind
from levelset.apiserver.verbs.subresources.eviction import Evictions
from levelset.apiserver.verbs.subresources.pod_logs import LogSource, log_handler, reject_logs
from levelset.apiserver.verbs.subresources.stream_handlers import StreamHandler, rejecting_handlers, stream_handlers
from levelset.apiserver.verbs.subresources.stream_sources import StreamSources
from levelset.apiserver.verbs.subresources.token_request import TokenRequests
from levelset.apiserver.verbs.watch import feeds_of
from levelset.apiserver.wire.webhook_client import WebhookClient
from levelset.errors import Cause, ConfigError
from levelset.http import (
    CertificateAuthority,
    Failure,
    Handler,
    Limits,
    Peer,
    Request,
    Response,
    Server,
    ServingCertificate,
    to_status,
)
from levelset.storage import MemoryStorage, Storage

__all__ = ["ApiServer", "Kinds", "ServerComponents", "build_components"]


_IN_FLIGHT: Final = 400
_SERVICE_NAMES: Final = (
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    "kubernetes.default.svc.cluster.local",
)


class ApiServer:
    """An embedded Kubernetes API server, over loopback or without any socket.

    - `storage`: by default everything is in memory and lost at the end. The caller closes a storage that it passes.
    - `token` is the bearer token of the owner (generated by default), `tokens` are further ones. With `tls` (the
      default, and what kubectl needs to send a token) the server creates its own certificate authority, see `ca`,
      unless it is given an `authority`. A TLS context serves with the certificate and the authorities that it has;
      `ca` is then what clients have to trust.
    - `host` and `port` are what it listens on; 0 is any free port. `names` are further host names and addresses that
      its certificate is valid for. With `reuse_port`, several processes listen on one port, and the operating system
      spreads the connections. `limits` are those of its HTTP server.
    - `secrets` encrypts the key that signs service account tokens. A storage that other processes use has no key as
      plain text: without `secrets`, it is encrypted with a key that is derived from that of the `authority`.
    - `handle` serves requests of the same process; with the `peer` `ApiServer.owner` they are the owner's. Requests
      over the network get 429 while `in_flight` others are in flight.
    - `rbac` authorizes all users but the owner: those of `tokens` (a mapping from tokens to users), of client
      certificates, service accounts and anonymous ones. `user_limits` limits each of them; the owner has no limit then.
    - `audit_log` logs all requests; the server opens and closes it.
    - `admission` are in-process admission plugins, called in this order; `admit` adds more. Configured webhooks are
      called after them; `webhook_client` restricts their addresses and resolves their Services.
    - `service_addresses` is the range of ClusterIPs; two, of IPv4 and IPv6 and joined by a comma, for dual stack.
    - `cluster_defaults` adds what a cluster has without any user: the Service `default/kubernetes` with its endpoints,
      the system PriorityClasses, flow schemas, priority levels and APIServices, in each namespace the ServiceAccount
      `default` and the ConfigMap `kube-root-ca.crt`, the ConfigMap `extension-apiserver-authentication` in kube-system,
      and for new Pods the admission by their ServiceAccount, with the volume of its token, unless `service_accounts` is
      False.
    - `compaction` discards the history every so many seconds (kube-apiserver: 300), up to where it was one period ago:
      older resource versions and continue tokens expire. By default only its size limits it; `EtcdStorage` compacts by
      itself.
    - Without `controllers` it does what kube-apiserver does alone, as under envtest: nothing is garbage collected,
      deleted namespaces stay Terminating, and namespaces have no default objects.
    - `kubernetes_version` is what `/version` reports in place of the version that the server follows, such as "1.34":
      older clients warn of a server that is much newer.
    - `webhook_services` are addresses of Services that webhooks name, by `namespace/name` or `namespace/name:port`;
      other Services are reached at their endpoints, external name or ClusterIP.
    - `now` is the clock of times in objects, `random` the source of generated names and uids.
    """

    owner: Final = Peer(ADMIN.name, (MASTERS,))
    """The peer of in-process requests that need no token."""

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: bool | ssl.SSLContext = True,
        token: str | None = None,
        tokens: Iterable[str] | Mapping[str, User] = (),
        authority: CertificateAuthority | None = None,
        ca: bytes | None = None,
        secrets: SecretBox | None = None,
        names: Iterable[str] = (),
        reuse_port: bool = False,
        limits: Limits | None = None,
        in_flight: int = _IN_FLIGHT,
        rbac: bool = False,
        user_limits: UserLimits | None = None,
        audit_log: AuditLog | None = None,
        now: Callable[[], datetime] = utc_now,
        random: Random | None = None,
        admission: Iterable[AdmissionPlugin] = (),
        webhook_client: WebhookClient | None = None,
        service_addresses: str = DEFAULT_SERVICE_CIDR,
        webhook_services: Mapping[str, tuple[str, int]] | None = None,
        cluster_defaults: bool = False,
        compaction: float | None = None,
        service_accounts: bool | None = None,
        controllers: bool = True,
        kubernetes_version: str | None = None,
    ) -> None:
        self._owns_storage = storage is None
        self._storage: Storage = MemoryStorage() if storage is None else storage
        self.token = token or new_token()
        authenticator = Authenticator({**_users_by_token(tokens), self.token: ADMIN})
        random = random or Random()  # noqa: S311 - names must be unique, not secret, see ServerState
        self._components: ServerComponents = build_components(
            self._storage,
            authenticator=authenticator,
            now=now,
            random=random,
            rbac=rbac,
            webhook_client=webhook_client,
            service_addresses=service_addresses,
            webhook_services=webhook_services,
            cluster_defaults=cluster_defaults,
            compaction=compaction,
            controllers=controllers,
            kubernetes_version=kubernetes_version,
        )
        if service_accounts is not None:
            self._components.kinds.pods.service_accounts = service_accounts
        self._components.health.ready["shutdown"] = lambda: not self._is_stopping
        self._components.health.ready["storage"] = lambda: self._components.state.reader.find_write_problem() is None
        self.admit(*admission)
        self._app: App = self._components.app
        # With RBAC there are users to limit, and the owner is never limited.
        self._app.user_limiter = UserLimiter(user_limits or UserLimits(in_flight=in_flight)) if rbac else None
        self._handler: Handler = self._app.handle if rbac else InFlightLimiter(self._app.handle, in_flight).handle
        self._is_started = self._is_stopping = False
        self.authority, self._is_secure = authority, bool(tls)
        self._tls = tls if isinstance(tls, ssl.SSLContext) else None
        self._ca = ca
        self._host, self._port, self._limits = host, port, limits
        self._names, self._reuse_port, self._audit_log = tuple(names), reuse_port, audit_log
        self._components.service_account_tokens.box = secrets
        self._server: Server | None = None
        self.certificate: ServingCertificate | None = None

    @property
    def state(self) -> ServerState:
        """The shared state: storage, catalog, clock, validators, listeners."""
        return self._components.state

    @property
    def url(self) -> str:
        """The base URL of the server; raises ConfigError before it listens."""
        if self._server is None:
            raise ConfigError("The server has no URL yet: start it first.")
        return self._server.url

    @property
    def ca(self) -> bytes | None:
        """The CA certificate that clients have to trust, as PEM; None without TLS and before the start."""
        if self._tls is not None and self._ca is not None:
            return self._ca
        return self.authority.certificate if self.authority is not None and self._is_secure else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Returns the response to a request, or an awaitable of it; never raises."""
        return self._app.handle(request)

    def admit(self, *plugins: AdmissionPlugin) -> Callable[[], None]:
        """Adds admission plugins, which review the client writes that they match; returns a function that removes them.

        Writes of the server itself, such as garbage collection, are not reviewed.
        """
        state = self._components.state
        chain = AdmissionChain(() if state.admission is None else state.admission.plugins)
        state.admission = chain.with_plugins(plugins).or_none()

        def end() -> None:
            if state.admission is not None:
                state.admission = state.admission.without_plugins(plugins).or_none()

        return end

    def convert_with(self, group: str, kind: str, convert: Callable[[Tree, str], Tree]) -> Callable[[], None]:
        """Converts the versions of a custom kind with a pure function; returns a function that removes it.

        It gets an object and the desired apiVersion, and replaces the conversion strategy of the definition. If it
        raises, the request gets 500. Of the metadata, it may change only labels and annotations.
        """
        return self._components.kinds.definitions.set_converter(group, kind, convert)

    def serve_logs(self, group: str, kind: str, source: LogSource) -> None:
        """Serves the `log` subresource of a kind from this source, also if its CRD is created later."""
        self._components.kinds.serve_logs(group, kind, log_handler(source))

    def serve_streams(self, group: str, kind: str, sources: StreamSources) -> None:
        """Serves `exec`, `attach` and `portforward` of a built-in kind from these sources; ConfigError for another."""
        served = self._components.kinds.serve_streams(group, kind, stream_handlers(sources))
        for name, handler in served.items():
            self._components.state.stream_handlers[name] = handler

    def serve_computed(self, definition: Tree, source: ComputedSource) -> None:
        """Serves a kind whose objects `source` computes for each request, and which is not stored: get and list.

        `definition` is a CustomResourceDefinition with one version, as `levelset.codegen.crd_of` returns it with
        `is_computed=True`; it is not stored either. ConfigError if the kind is served already.
        """
        self._components.kinds.serve_computed(self._components.state, definition, source)

    def serve_page(self, page: Callable[[Request], Response | Awaitable[Response] | None]) -> None:
        """Serves non-resource paths with `page`, which returns None for paths that it does not serve.

        Unauthenticated requests are rejected before; without RBAC, users other than the owner may only GET.
        """
        self._app.add_page(page)

    async def start(self, *, listen: bool = True) -> None:
        """Loads the objects, starts the controllers and, with `listen`, accepts connections.

        Raises ConfigError if the address is not available.
        """
        if self._is_stopping:
            raise ConfigError("A stopped server cannot be started again: create a new one on the same storage.")
        if self._is_started:
            return
        self._is_started = True
        try:
            if self._audit_log is not None:
                await self._open_log(self._audit_log)
            tokens = self._components.service_account_tokens
            if tokens.box is None and self.authority is not None and self.state.shared is not None:
                tokens.box = await asyncio.to_thread(SecretBox.derived_from, self.authority.identity.key)
            await self._components.start()
            if listen:
                await self._listen()
            await self._components.start_cluster_defaults(self._serving_address(), self.ca, self._client_authorities())
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, within: float = 10.0) -> None:
        """Fails readiness, ends watches, finishes requests for up to `within` seconds, and stops the controllers."""
        if not self._is_started:
            return
        self._is_stopping = True
        feeds_of(self.state).close()
        try:
            if self._server is not None:
                await self._server.stop(within=within)
        finally:
            if self.certificate is not None:
                await self.certificate.close()
            self._is_started = False
            await self._components.stop()
            if self._owns_storage:
                await self._storage.close()
            if self._audit_log is not None:
                self._app.audit_log = None
                await asyncio.to_thread(self._audit_log.close)

    async def idle(self) -> None:
        """Waits until the controllers of the server, such as the garbage collector, have nothing left to do."""
        await self._components.wait_idle()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _listen(self) -> None:
        context = self._tls
        if context is None and self._is_secure:
            context = await (await self._open_certificate()).open()
        self._server = Server(
            self._handler,
            host=self._host,
            port=self._port,
            reuse_port=self._reuse_port,
            tls=context,
            limits=self._limits,
            on_error=self._reject,
            head_check=self._app.check_head,
        )
        await self._server.start()

    def _serving_address(self) -> ServingAddress | None:
        """The address for other processes; of a server that listens on all addresses, one that `names` has."""
        if self._server is None:
            return None
        found = next(filter(_is_address, (self._host, *self._names)), "127.0.0.1")
        if found in ("0.0.0.0", "::"):  # noqa: S104 - it is compared, not bound
            found = next(filter(_is_address, self._names), "::1" if found == "::" else "127.0.0.1")
        return ServingAddress(found, int(self._server.url.rpartition(":")[2]), is_secure=self._is_secure)

    def _client_authorities(self) -> str:
        """The authorities of the client certificates that the server accepts, as PEM; empty if it accepts none."""
        if self._tls is not None:
            return "".join(map(ssl.DER_cert_to_PEM_cert, self._tls.get_ca_certs(binary_form=True)))
        return (self.ca or b"").decode()

    async def _open_log(self, audit_log: AuditLog) -> None:
        audit_log.now = self.state.now
        await asyncio.to_thread(audit_log.open)
        self._app.audit_log = audit_log

    def _reject(self, failure: Failure) -> Response:
        """Returns the response to input that is not a valid HTTP request."""
        response = to_status(failure)
        return response if self._audit_log is None else self._audit_log.observe_rejected(failure, response)

    async def _open_certificate(self) -> ServingCertificate:
        if self.authority is None:  # takes time and reads files: not on the event loop
            self.authority = await asyncio.to_thread(CertificateAuthority.create, "levelset", at=self.state.now())
        given = (self._host, *self._names, *self._components.cluster_names)
        names = dict.fromkeys(["localhost", *(one for one in given if not _is_address(one))])
        addresses = {"127.0.0.1", "::1", *filter(_is_address, given)}
        self.certificate = ServingCertificate(self.authority, list(names), sorted(addresses), now=self.state.now)
        return self.certificate


class Kinds:
    """The catalog of a server with its CRD registry and service strategy; `load` once, before the first request."""

    def __init__(self, *, now: Callable[[], datetime] = utc_now, service_addresses: str = DEFAULT_SERVICE_CIDR) -> None:
        self.services = ServiceStrategy(service_addresses)
        self.definitions = CrdRegistry(now=now)
        pods = builtin_rules("", "Pod")
        assert pods.validate is not None
        self.pods = PodAdmission(pods.validate)
        claims = builtin_rules("", "PersistentVolumeClaim")
        assert claims.validate is not None
        self.claims = ClaimAdmission(claims.validate)
        rules = {
            ("", "PersistentVolumeClaim"): replace_fields(claims, validate=self._validate_claim),
            ("", "Pod"): replace_fields(pods, admit_create=self.pods.admit_create, validate=self.pods.validate),
            ("", "Service"): self.services.rules,
            (definitions.GROUP, definitions.KIND): self.definitions.rules,
        }
        self.catalog = builtin_catalog(rules)

    def _validate_claim(self, new: Tree, old: Tree | None) -> list[Cause]:
        """The causes of the rules of claims; raises Forbidden if a LimitRange does not allow a valid one."""
        causes = self.claims.validate(new, old)
        if not causes:
            self.pods.check_claim(new)
        return causes

    def serve_logs(self, group: str, kind: str, handler: Callable[..., Any]) -> None:
        """Serves the `log` subresource of a kind with `handler(state, served, namespace, name, request)`."""
        served = self.catalog.kinds(group, kind)
        if served is None or served.custom:
            self.definitions.serve_logs(group, kind, handler)
        else:
            self.catalog.change(remove=[served], add=[replace(served, logs=handler)])

    def serve_streams(
        self, group: str, kind: str, handlers: Mapping[str, StreamHandler]
    ) -> dict[tuple[str, str, str], StreamHandler]:
        """Adds streaming subresources to a built-in kind; returns their handlers by group, resource and subresource."""
        served = self.catalog.kinds(group, kind)
        if served is None or served.custom:
            raise ConfigError(f"{kind}: streams can be served of built-in kinds only, such as Pod")
        subresources = (*served.subresources, *(name for name in handlers if name not in served.subresources))
        self.catalog.change(remove=[served], add=[replace(served, subresources=subresources)])
        return {(served.group, served.plural, name): handler for name, handler in handlers.items()}

    def serve_computed(self, state: ServerState, definition: Tree, source: ComputedSource) -> None:
        """Serves a kind from a source; ConfigError if it is served already."""
        served = computed_resource(definition)
        if self.catalog.find(served.group, served.version, served.plural) is not None:
            raise ConfigError(f"{served.qualified}: this kind is served already, so it cannot be computed")
        self.catalog.add(served)
        state.read_handlers[served.group, served.plural] = computed_handler(source)

    async def load(self, state: ServerState) -> None:
        """Loads the stored services and definitions, and listens to their writes from then on."""
        self.pods.load(state)
        self.claims.get_item = state.reader.get_nowait
        await self.services.load(state)
        await self.definitions.load(state)


_Controller = (
    GarbageCollector
    | NamespaceController
    | EventExpiryController
    | PolicyStatusController
    | ResourceQuotaController
    | VolumeProtectionController
)


class ServerComponents(msgspec.Struct, eq=False):
    """The components of a server behind its HTTP listener."""

    state: ServerState
    app: App
    health: Health
    kinds: Kinds
    garbage_collector: GarbageCollector
    namespaces: NamespaceController
    event_expiry: EventExpiryController
    service_account_tokens: ServiceAccountTokens
    webhooks: WebhookIndex
    policies: PolicyIndex
    policy_status: PolicyStatusController
    volume_protection: VolumeProtectionController
    resource_quotas: ResourceQuotaController
    follower: StorageFollower
    rbac: RbacAuthorizer | None = None
    role_aggregation: RoleAggregationController | None = None
    namespace_defaults: NamespaceDefaultsController | None = None
    cluster_authentication: ClusterAuthenticationController | None = None
    compaction: PeriodicCompaction | None = None
    runs_controllers: bool = True
    """Whether those of kube-controller-manager run; what kube-apiserver does itself is done in any case."""
    address: ServingAddress | None = None
    """Where the server listens; None if it does not."""
    lease: ControllerLease | None = None
    """By which one of several servers runs the controllers; None for a storage that no other process uses."""
    crd_cleanup: CrdCleanup | None = None
    _crd_cleanup_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Loads the stored objects and starts the controllers."""
        await wait_package_data()
        self.follower.start()
        await self.kinds.load(self.state)
        self.crd_cleanup = CrdCleanup(self.state, self.kinds.definitions)
        self._crd_cleanup_task = asyncio.create_task(self.crd_cleanup.run(), name="crd cleanup")
        await self._start_controllers()
        await self.event_expiry.start()
        await self.service_account_tokens.load()
        await self.webhooks.start()
        await self.policies.start()
        PodSecurity(self.state).start()
        for key, checks in admin_access_checks(self.state.reader.get_nowait).items():
            self.state.validators.setdefault(key, []).extend(checks)
        if self.rbac is not None and self.role_aggregation is not None:
            await self.rbac.load(self.state)
            await reconcile_bootstrap_roles(self.state)
            if self.runs_controllers:
                self.role_aggregation.start()
        if self.compaction is not None:
            self.compaction.start()
        if self.runs_controllers:
            self.policy_status.start()  # after the policies
        if self.state.shared is not None:
            await self._start_lease()

    async def _start_controllers(self) -> None:
        """Starts the controllers of kube-controller-manager that need nothing of what follows."""
        if not self.runs_controllers:
            self.namespaces.queue.pause()
            await self.namespaces.start()  # it also creates the system namespaces, which is kube-apiserver's part
            return
        await self.garbage_collector.start()
        await self.namespaces.start()
        await self.volume_protection.start()
        await self.resource_quotas.start()

    async def start_cluster_defaults(
        self, address: ServingAddress | None, ca: bytes | None, client_authorities: str
    ) -> None:
        """Creates the default objects of a cluster, if it has them; the last step, which knows where it listens."""
        if self.namespace_defaults is None:
            return
        self.cluster_authentication = ClusterAuthenticationController(self.state)
        self.address, leads = address, self.holds_controllers()
        if not leads:
            self.namespace_defaults.queue.pause()
            self.cluster_authentication.queue.pause()
        await self._reconcile_bootstrap_objects()
        await self.cluster_authentication.start(client_authorities, leads=leads)
        if self.runs_controllers:
            await self.namespace_defaults.start(ca, leads=leads)

    async def _reconcile_bootstrap_objects(self) -> None:
        if self.namespace_defaults is not None and self.holds_controllers():
            services = self.kinds.services
            await reconcile_bootstrap_objects(self.state, services.first_address, services.cidrs, self.address)
            await reconcile_flow_control(self.state)

    async def _start_lease(self) -> None:
        await self._pause()
        identity = f"{socket.gethostname()}_{os.getpid()}_{self.state.random.getrandbits(32):08x}"
        self.lease = ControllerLease(self.state, identity=identity, on_lead=self._resume, on_follow=self._pause)
        await self.lease.start()

    async def _pause(self) -> None:
        for queue in self._queues():
            queue.pause()
        self.event_expiry.pause()
        if self.crd_cleanup is not None:
            self.crd_cleanup.pause()

    async def _resume(self) -> None:
        for controller in self._controllers():
            await controller.resume()
        if self.role_aggregation is not None:
            await self.role_aggregation.resume()
        if self.crd_cleanup is not None:
            await self.crd_cleanup.resume()
        if self.namespace_defaults is not None and self.address is not None:
            await self._reconcile_bootstrap_objects()
            await self.namespace_defaults.resume()
        if self.cluster_authentication is not None and self.address is not None:
            await self.cluster_authentication.resume()

    async def stop(self) -> None:
        """Stops the controllers."""
        if self.lease is not None:
            await self.lease.stop()
        if self.compaction is not None:
            await self.compaction.stop()
        if self.role_aggregation is not None:
            await self.role_aggregation.stop()
        if self.namespace_defaults is not None:
            await self.namespace_defaults.stop()
        if self.cluster_authentication is not None:
            await self.cluster_authentication.queue.stop()
        await self.resource_quotas.stop()
        await self.policy_status.stop()
        await self.volume_protection.stop()
        await self.event_expiry.stop()
        await self.namespaces.stop()
        await self.garbage_collector.stop()
        if self._crd_cleanup_task is not None:
            self._crd_cleanup_task.cancel()
            await asyncio.gather(self._crd_cleanup_task, return_exceptions=True)
            self._crd_cleanup_task = None
        self.follower.stop()
        self.webhooks.client.close()

    async def wait_idle(self) -> None:
        """Waits until the queues of all controllers are empty."""
        queues = self._queues()
        while True:
            if self.crd_cleanup is not None:
                await self.crd_cleanup.settle()
            busy = [queue for queue in queues if not queue.is_idle]
            if not busy:
                return
            for queue in busy:
                await queue.wait_idle()

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The names and the address of the Service of this server, which its certificate is valid for."""
        return () if self.namespace_defaults is None else (*_SERVICE_NAMES, self.kinds.services.first_address)

    def holds_controllers(self) -> bool:
        """Whether the controllers reconcile on this server."""
        return self.lease is None or self.lease.is_held

    def _queues(self) -> "tuple[KeyQueue[Any], ...]":
        optional = (self.role_aggregation, self.namespace_defaults, self.cluster_authentication)
        return (
            *(controller.queue for controller in self._controllers()),
            *(controller.queue for controller in optional if controller is not None),
        )

    def _controllers(self) -> "tuple[_Controller, ...]":
        keyed = (self.event_expiry, self.policy_status, self.resource_quotas, self.volume_protection)
        return (self.garbage_collector, self.namespaces, *keyed)


def build_components(
    storage: Storage,
    *,
    authenticator: Authenticator,
    now: Callable[[], datetime],
    random: Random,
    rbac: bool = False,
    webhook_client: WebhookClient | None = None,
    service_addresses: str = DEFAULT_SERVICE_CIDR,
    webhook_services: Mapping[str, tuple[str, int]] | None = None,
    cluster_defaults: bool = False,
    compaction: float | None = None,
    controllers: bool = True,
    kubernetes_version: str | None = None,
) -> ServerComponents:
    """Builds the components of a server on top of a storage; `rbac` authorizes users outside of `system:masters`."""
    kinds, client = Kinds(now=now, service_addresses=service_addresses), webhook_client or WebhookClient()
    kinds.pods.service_accounts = cluster_defaults
    kinds.definitions.webhook_converter = lambda webhook: WebhookConverter(webhook, client, random)
    state = ServerState(storage, kinds.catalog, authenticator=authenticator, now=now, random=random)
    if client.services is None:
        client.services = ServiceAddresses(state, webhook_services).resolve
    state.service_account_tokens = service_account_tokens = ServiceAccountTokens(state)
    authenticator.service_account_user = service_account_tokens.authenticate
    state.subresource_handlers["", "serviceaccounts", "token"] = TokenRequests(service_account_tokens).handle
    _serve_pods_without_nodes(kinds, state)
    state.subresource_handlers["", "pods", "eviction"] = Evictions().handle
    state.subresource_handlers["", "pods", "binding"] = state.subresource_handlers["", "bindings", ""] = bind
    state.read_handlers["", "componentstatuses"] = read_component_statuses
    if rbac:
        state.rbac = RbacAuthorizer()
        authenticator.may_impersonate, authenticator.allow_anonymous = state.rbac.allows, True
    health = Health()
    discovery = DiscoveryPages(state.catalog, version_info(kubernetes_version))
    openapi = OpenApiEndpoint(state.catalog, state.expensive_work)
    app = App(state, pages=[health.page, discovery.respond, openapi.respond, Compaction(state).page])
    state.policies = policies = PolicyIndex(state)
    components = ServerComponents(
        state=state,
        app=app,
        health=health,
        kinds=kinds,
        garbage_collector=GarbageCollector(state),
        namespaces=NamespaceController(state),
        event_expiry=EventExpiryController(state),
        service_account_tokens=service_account_tokens,
        webhooks=WebhookIndex(state, client),
        policies=policies,
        policy_status=PolicyStatusController(state, policies),
        volume_protection=VolumeProtectionController(state),
        resource_quotas=ResourceQuotaController(state),
        follower=StorageFollower(state),
        rbac=state.rbac,
        role_aggregation=None if state.rbac is None else RoleAggregationController(state, state.rbac),
        namespace_defaults=NamespaceDefaultsController(state) if cluster_defaults else None,
        compaction=None if compaction is None or state.shared else PeriodicCompaction(storage, compaction),
        runs_controllers=controllers,
    )
    app.add_page(ServerMetrics(state, holds_controllers=components.holds_controllers).page)
    return components


def _serve_pods_without_nodes(kinds: Kinds, state: ServerState) -> None:
    """Refuses logs and streams of Pods, until a node has sources for them."""
    kinds.serve_logs("", "Pod", reject_logs)
    state.stream_handlers.update(kinds.serve_streams("", "Pod", rejecting_handlers()))


def _users_by_token(tokens: Iterable[str] | Mapping[str, User]) -> dict[str, User]:
    if isinstance(tokens, Mapping):
        return dict(cast("Mapping[str, User]", tokens))
    return dict.fromkeys(tokens, ADMIN)


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
