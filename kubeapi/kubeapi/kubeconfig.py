"""Credentials from a kubeconfig, through the official `kubernetes` package.

The package is imported only when a kubeconfig is used: it costs more memory than a whole sidecar.
It owns the format (contexts, inline data, exec plugins, token refresh); this module only asks it.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any

from .credentials import UnusableCredentials
from .errors import Unreachable


class Kubeconfig:
    """The kubeconfig's current context. Raises `UnusableCredentials` naming the file."""

    def __init__(self, path: Path, *, server: str | None = None) -> None:
        self._configuration, context = _loaded(path)
        try:
            self._tls = _tls_context(self._configuration)
            self._anonymous_tls = self._tls
            if self._configuration.cert_file:
                self._anonymous_tls = _tls_context(self._configuration, is_anonymous=True)
        except (OSError, ValueError) as error:
            raise _unusable(path, f"its certificates: {error}") from error
        self._server = (server or str(self._configuration.host)).rstrip("/")
        namespace = context.get("namespace")
        self.namespace: str | None = None if namespace is None else str(namespace)

    @property
    def server(self) -> str:
        return self._server

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
        if not self._server.startswith("https:"):
            return None
        return self._anonymous_tls if is_anonymous else self._tls

    async def authorization(self) -> str | None:
        """Raises `Unreachable` where an exec plugin or identity provider gives no token."""
        if self._configuration.refresh_api_key_hook is None:
            return self._authorization()
        # Somebody may be asked for a new token: not on the loop.
        return await asyncio.to_thread(self._authorization)

    def _authorization(self) -> str | None:
        from kubernetes.config import ConfigException

        try:
            for name in ("BearerToken", "authorization"):
                value: str | None = self._configuration.get_api_key_with_prefix(name)
                if value:
                    return value
        except (ConfigException, OSError, ValueError) as error:
            raise Unreachable(f"no token: {error}") from error
        return None


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    """The package's `Configuration`, and the current context."""
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, kube_config
        from yaml import YAMLError
    except ImportError as error:
        raise UnusableCredentials(
            f"--kubeconfig {path}: the Python package kubernetes is missing; "
            "install the extra kubeconfig: pip install '.[kubeconfig]' in a checkout"
        ) from error
    configuration = Configuration()
    name = str(path.expanduser())
    try:
        kube_config.load_kube_config(
            config_file=name, client_configuration=configuration, persist_config=False
        )
        _, context = kube_config.list_kube_config_contexts(config_file=name)
        return configuration, dict(context.get("context") or {})
    except (ConfigException, YAMLError, OSError, ValueError) as error:
        missing = "" if path.expanduser().exists() else "the file does not exist: "
        raise _unusable(path, f"{missing}{error}") from error
    except (TypeError, AttributeError, KeyError) as error:
        # The package does not check shapes: a list where it wants a mapping, and so on.
        raise _unusable(path, f"not the structure of a kubeconfig ({error})") from error


def _unusable(path: Path, problem: str) -> UnusableCredentials:
    """One line, whatever the parser said."""
    told = " ".join(problem.split())
    return UnusableCredentials(f"--kubeconfig {path}: {told}; `kubectl config view` checks a file")


def _tls_context(configuration: Any, *, is_anonymous: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file and not is_anonymous:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
