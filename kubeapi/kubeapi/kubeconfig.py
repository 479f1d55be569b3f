"""Credentials from a kubeconfig, through the official `kubernetes` package.

Imported only when a kubeconfig is used: the package costs more memory than a whole sidecar. It
owns the format (contexts, inline data, exec plugins, token refresh); this module only asks it.
"""

import asyncio
import ssl
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, kube_config
from yaml import YAMLError

from .credentials import UnusableCredentials


class Kubeconfig:
    """The kubeconfig's current context. Raises `UnusableCredentials` naming the file."""

    def __init__(self, path: Path, *, server: str | None = None) -> None:
        self._configuration = Configuration()
        try:
            name = str(path.expanduser())
            kube_config.load_kube_config(
                config_file=name, client_configuration=self._configuration, persist_config=False
            )
            _, context = kube_config.list_kube_config_contexts(config_file=name)
            self._tls = _context(self._configuration)
        except (ConfigException, YAMLError, OSError, ValueError, ssl.SSLError) as error:
            raise UnusableCredentials(f"--kubeconfig {path}: {error}") from error
        self._server = (server or str(self._configuration.host)).rstrip("/")
        self.namespace: str | None = context.get("context", {}).get("namespace")

    @property
    def server(self) -> str:
        return self._server

    def tls(self) -> ssl.SSLContext | None:
        return self._tls if self._server.startswith("https:") else None

    async def authorization(self) -> str | None:
        # An exec plugin or an identity provider may be asked for a new token: not on the loop.
        if self._configuration.refresh_api_key_hook is None:
            return self._authorization()
        return await asyncio.to_thread(self._authorization)

    def _authorization(self) -> str | None:
        for name in ("BearerToken", "authorization"):
            value: str | None = self._configuration.get_api_key_with_prefix(name)
            if value:
                return value
        return None


def _context(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
