"""Credentials from a kubeconfig: what client-go does with its fields.

Guarantees: tokens, certificates and keys stay in memory, no file is ever written. The kubeconfig
and the files that it names are read again when they change, for the next request; what cannot be
used leaves the last good content in use. Server, context and namespace are those of the start: a
running sidecar does not move to another cluster. A token that cannot be read is a matter of the
request, not of the start: what is known offline is answered without one.
"""

import ssl
from functools import partial
from pathlib import Path
from typing import NamedTuple

from edge_sidecars.kubeapi.credentials import (
    UnusableCredentials,
    WatchedFiles,
    client_context,
    logger,
    present,
    watched_token,
)
from edge_sidecars.kubeapi.errors import Unreachable
from edge_sidecars.kubeapi.exec_plugin import ExecPlugin
from edge_sidecars.kubeapi.kubeconfig_file import (
    KubeContext,
    kubeconfig_paths,
    read_context,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, HttpProxy, ProxyVariables
from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.formats.yaml_text import MissingPackage
from edge_sidecars.runtime.log import fields


class _TlsContexts(NamedTuple):
    """`anonymous` is without a client certificate; it is `own` where there is none."""

    own: ssl.SSLContext
    anonymous: ssl.SSLContext


class _User(NamedTuple):
    """What the kubeconfig has, and what is made of the files that it names."""

    context: KubeContext
    tls: WatchedFiles[_TlsContexts]
    token: WatchedFiles[str] | None
    plugin: ExecPlugin | None


class Kubeconfig:
    """A context of a kubeconfig, or of several with a colon between; default: the current one.

    Raises `UnusableCredentials` naming the file, and the flag from which it came; `BadInput` for
    `proxies` that cannot be used. Its proxy-url wins over them. `verified_because`: why a cluster
    with insecure-skip-tls-verify cannot be used, "" where it can.
    """

    def __init__(
        self,
        path: Path,
        *,
        server: str | None = None,
        context: str | None = None,
        flag: str = "--kubeconfig",
        proxies: ProxyVariables = NO_PROXIES,
        verified_because: str = "",
    ) -> None:
        self._verified_because = verified_because
        self._name = context
        self._fixed_server: str | None = None
        self._logged = ""  # the latest problem that was logged
        self._plugin: ExecPlugin | None = None
        self._of_plugin: tuple[_TlsContexts, tuple[bytes, bytes], ssl.SSLContext] | None = None
        try:
            self._paths = kubeconfig_paths(path)
            self._user = WatchedFiles(self._paths, self._read)
            found = self._user.get().context
        except (OSError, ValueError) as error:
            check = "" if isinstance(error, MissingPackage) else "; `kubectl config view` checks it"
            why = describe_failure(error)
            raise UnusableCredentials(f"{flag} {path}: {why}{check}") from error
        self._name = found.name
        self.server = (server or found.server).rstrip("/")
        self._fixed_server = found.server if server is None else None
        self.namespace = found.namespace
        self._is_tls = self.server.startswith("https:")
        self._proxy = None if found.proxy is not None else proxies.proxy_for(self.server)

    @property
    def tls_server_name(self) -> str | None:
        return self._user.get().context.tls_server_name if self._is_tls else None

    @property
    def proxy(self) -> HttpProxy | None:
        return self._user.get().context.proxy or self._proxy

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        if not self._is_tls:
            return None
        user = self._user.get()
        contexts = user.tls.get()
        if is_anonymous:
            return contexts.anonymous
        if user.plugin is None or user.plugin.newest is None or user.plugin.newest.pair is None:
            return contexts.own
        return self._with_pair(user, contexts, user.plugin.newest.pair)

    async def authorization(self) -> str | None:
        """Over plain HTTP none is sent, as client-go has it. Raises `Unreachable` where a token
        file or an exec plugin gives nothing."""
        if not self._is_tls:
            return None
        try:
            found = await self._authorization(self._user.get())
        except Unreachable as error:
            if str(error) != self._logged:
                self._logged = str(error)
                logger.warning(
                    "no credentials for the API server",
                    extra=fields(server=self.server, why=self._logged),
                )
            raise
        self._logged = ""
        return found

    async def _authorization(self, user: _User) -> str | None:
        if user.token is not None:
            try:
                return f"Bearer {user.token.get()}"
            except (OSError, ValueError) as error:
                if user.context.authorization is None:
                    raise Unreachable(f"no token: {describe_failure(error)}") from error
        if user.context.authorization is not None or user.plugin is None:
            return user.context.authorization
        credential = await user.plugin.credential()
        if credential.pair is not None:
            # A pair that cannot be used is known now, not in the middle of a request.
            self._with_pair(user, user.tls.get(), credential.pair)
        return None if credential.token is None else f"Bearer {credential.token}"

    def refused(self) -> None:
        if self._plugin is not None:
            self._plugin.refused()

    def _read(self) -> _User:
        """Raises OSError or ValueError."""
        context = read_context(self._paths, self._name)
        if context.is_insecure and self._verified_because:
            raise ValueError(
                f"insecure-skip-tls-verify of {context.server}: {self._verified_because}; give its "
                "certificate-authority instead"
            )
        if self._fixed_server not in (None, context.server):
            raise ValueError(f"{self.server} became another server: restart to go there")
        sources = [context.authorities, *(context.pair or ())]
        files = [it.path for it in sources if it is not None and it.path is not None]
        tls = WatchedFiles(files, partial(_tls_contexts, context))
        tls.get()
        token = None
        if context.token_file is not None:
            token = watched_token(context.token_file)
        if self._plugin is None or self._plugin.spec != context.plugin:
            self._plugin = None if context.plugin is None else ExecPlugin(context.plugin)
        return _User(context, tls, token, self._plugin)

    def _with_pair(
        self, user: _User, contexts: _TlsContexts, pair: tuple[bytes, bytes]
    ) -> ssl.SSLContext:
        """Raises `Unreachable` for a pair that cannot be used."""
        made = self._of_plugin
        if made is not None and made[0] is contexts and made[1] == pair:
            return made[2]
        try:
            context = _trusting(user.context)
            present(context, *pair)
        except (OSError, ValueError) as error:
            raise Unreachable(
                f"the exec plugin's certificate: {describe_failure(error)}"
            ) from error
        self._of_plugin = contexts, pair, context
        return context


def _tls_contexts(context: KubeContext) -> _TlsContexts:
    try:
        own = anonymous = _trusting(context)
        if context.pair is not None:
            own = _trusting(context)
            present(own, *(source.read() for source in context.pair))
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"its certificates: {describe_failure(error)}") from error
    return _TlsContexts(own, anonymous)


def _trusting(context: KubeContext) -> ssl.SSLContext:
    authorities = None if context.authorities is None else context.authorities.read()
    return client_context(authorities, is_insecure=context.is_insecure)
