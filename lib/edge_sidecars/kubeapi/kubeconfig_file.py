"""What kubeconfig files say: several merged into one, and of that one context.

Follows client-go (tools/clientcmd): of several files the first to name a cluster, user, context or
current-context wins; relative paths are relative to the file that they are in. Only reads; what
the files that it names hold, and which fields exclude each other, is the business of `kubeconfig`.
JSON needs no package, YAML needs PyYAML.
"""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.kubeapi.exec_plugin import ExecSpec

# Of the cluster, which plugins that want it get (client.authentication.k8s.io, ExecConfig.Cluster).
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_LISTS = ("clusters", "users", "contexts")

_Mapping = Mapping[str, object]


class MissingPackage(ValueError):
    """PyYAML is not installed."""


@dataclass(frozen=True)
class Source:
    """Content that stands in the kubeconfig, or the file that has it."""

    path: Path | None
    inline: bytes = b""

    def read(self) -> bytes:
        """Raises OSError."""
        return self.inline if self.path is None else self.path.read_bytes()


@dataclass(frozen=True)
class Context:
    """One cluster as one user sees it."""

    name: str
    server: str
    namespace: str | None
    authorities: Source | None
    is_insecure: bool
    tls_server_name: str | None
    certificate: Source | None
    key: Source | None
    token: str | None
    token_file: Path | None
    basic: tuple[str, str] | None  # username and password
    plugin: ExecSpec | None


def kubeconfig_paths(path: Path) -> tuple[Path, ...]:
    """One file, or several with a colon between, as the variable KUBECONFIG has them."""
    text = str(path)
    if path.expanduser().exists():
        return (path.expanduser(),)
    return tuple(Path(each).expanduser() for each in text.split(os.pathsep) if each)


def read_context(paths: Sequence[Path], name: str | None) -> Context:
    """Of the context `name`, or of the current one. Raises OSError, or ValueError naming the field.

    Of several files some may be missing, as with KUBECONFIG.
    """
    merged: dict[str, dict[str, tuple[_Mapping, Path]]] = {kind: {} for kind in _LISTS}
    current = ""
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if len(paths) == 1:
                raise
            continue
        content = _parsed(text, path)
        current = current or _text(content, "current-context", f"{path}") or ""
        for kind in _LISTS:
            for key, entry in _named(content, kind, path).items():
                merged[kind].setdefault(key, (entry, path.absolute().parent))
    chosen = name or current
    if not chosen:
        raise ValueError("it has no current-context")
    context, _ = _entry(merged["contexts"], chosen, "context")
    cluster_name = _text(context, "cluster", f"context {chosen}")
    if not cluster_name:
        raise ValueError(f"context {chosen} names no cluster")
    cluster, folder = _entry(merged["clusters"], cluster_name, "cluster")
    user_name = _text(context, "user", f"context {chosen}") or ""
    user: tuple[_Mapping, Path] = ({}, folder)
    if user_name:
        user = _entry(merged["users"], user_name, "user")
    return _context(
        chosen,
        _Fields(cluster, f"cluster {cluster_name}", folder),
        _Fields(user[0], f"user {user_name}", user[1]),
        _text(context, "namespace", f"context {chosen}"),
    )


def _parsed(text: str, path: Path) -> _Mapping:
    content: object = None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        try:
            # Not where JSON is enough: an image for pods does not have it.
            from yaml import YAMLError, safe_load
        except ImportError as error:
            raise MissingPackage(
                "it is YAML, for which the Python package PyYAML is missing: install the extra "
                "kubeconfig (pip install '.[kubeconfig]' in a checkout), or write it as JSON"
            ) from error
        try:
            content = safe_load(text)
        except (YAMLError, RecursionError) as error:
            raise ValueError(f"it is neither JSON nor YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no mapping")
    return content


def _named(content: _Mapping, kind: str, path: Path) -> dict[str, _Mapping]:
    """The entries of a list by name; each holds its mapping under the singular of the list."""
    entries = content.get(kind) or []
    if not isinstance(entries, list):
        raise ValueError(f"{kind} of {path} is no list")
    found: dict[str, _Mapping] = {}
    for entry in entries:
        inner = entry.get(kind.removesuffix("s")) or {} if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(inner, dict):
            raise ValueError(f"{kind} of {path} has an entry that is no mapping")
        name = entry.get("name")
        if not isinstance(name, str):
            raise ValueError(f"{kind} of {path} has an entry without a name")
        if name in found:
            raise ValueError(f"{kind} of {path} has {name} twice")
        found[name] = inner
    return found


def _entry(
    entries: Mapping[str, tuple[_Mapping, Path]], name: str, kind: str
) -> tuple[_Mapping, Path]:
    if name not in entries:
        raise ValueError(f"{kind} {name} does not exist")
    return entries[name]


@dataclass(frozen=True)
class _Fields:
    """Those of a cluster or a user; `folder` is where its kubeconfig is."""

    values: _Mapping
    owner: str
    folder: Path

    def text(self, name: str) -> str | None:
        return _text(self.values, name, self.owner) or None

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return None if text is None else self.folder / Path(text).expanduser()

    def switch(self, name: str) -> bool:
        value = self.values.get(name) or False
        if not isinstance(value, bool):
            raise ValueError(f"{name} of {self.owner} is neither true nor false")
        return value

    def source(self, name: str) -> Source | None:
        """Data wins over a path, as client-go has it."""
        data, path = self.text(f"{name}-data"), self.path(name)
        if data is None:
            return None if path is None else Source(path)
        try:
            return Source(None, base64.b64decode("".join(data.split()), validate=True))
        except ValueError as error:
            raise ValueError(f"{name}-data of {self.owner} is not base64") from error

    def refuse(self, names: Sequence[str], remedy: str) -> None:
        for name in names:
            if self.values.get(name):
                raise ValueError(f"{name} of {self.owner} is not supported: {remedy}")


def _text(values: _Mapping, name: str, owner: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} of {owner} is not text")
    return value


def _context(name: str, cluster: _Fields, user: _Fields, namespace: str | None) -> Context:
    cluster.refuse(["proxy-url"], "name a --server that can be reached directly")
    user.refuse(["auth-provider"], "use an exec plugin, such as kubelogin for OIDC")
    user.refuse(
        ["as", "as-uid", "as-groups", "as-user-extra"],
        "a user of its own with the rights that are needed takes its place",
    )
    server = cluster.text("server")
    if server is None:
        raise ValueError(f"{cluster.owner} names no server")
    authorities, is_insecure = (
        cluster.source("certificate-authority"),
        cluster.switch("insecure-skip-tls-verify"),
    )
    if is_insecure and authorities is not None:
        raise ValueError(
            f"{cluster.owner} has a certificate-authority and insecure-skip-tls-verify: drop one"
        )
    certificate, key = user.source("client-certificate"), user.source("client-key")
    if (certificate is None) != (key is None):
        raise ValueError(f"{user.owner} has client-certificate or client-key without the other")
    token, token_file, user_name = user.text("token"), user.path("tokenFile"), user.text("username")
    if user_name is not None and (token is not None or token_file is not None):
        raise ValueError(f"{user.owner} has a token and a username: drop one")
    return Context(
        name=name,
        server=server.rstrip("/"),
        namespace=namespace or None,
        authorities=authorities,
        is_insecure=is_insecure,
        tls_server_name=cluster.text("tls-server-name"),
        certificate=certificate,
        key=key,
        token=token,
        token_file=token_file,
        basic=None if user_name is None else (user_name, user.text("password") or ""),
        plugin=_plugin(user, cluster, server, authorities),
    )


def _plugin(
    user: _Fields, cluster: _Fields, server: str, authorities: Source | None
) -> ExecSpec | None:
    values = user.values.get("exec")
    if values is None:
        return None
    if not isinstance(values, dict):
        raise ValueError(f"exec of {user.owner} is no mapping")
    it = _Fields(values, f"exec of {user.owner}", user.folder)
    command = it.text("command")
    if command is None:
        raise ValueError(f"{it.owner} has no command")
    if os.sep in command:
        command = str(user.folder / Path(command).expanduser())
    arguments = values.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ValueError(f"args of {it.owner} is no list of texts")
    return ExecSpec(
        owner=user.owner,
        command=command,
        arguments=tuple(arguments),
        environ=_environ(values.get("env") or [], it.owner),
        api_version=it.text("apiVersion") or "",
        interactive_mode=it.text("interactiveMode") or "",
        install_hint=it.text("installHint") or "",
        cluster=(
            _cluster(cluster, server, authorities) if it.switch("provideClusterInfo") else None
        ),
    )


def _environ(values: object, owner: str) -> tuple[tuple[str, str], ...]:
    found = []
    for each in values if isinstance(values, list) else [None]:
        name, value = (each.get("name"), each.get("value")) if isinstance(each, dict) else (0, 0)
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(f"env of {owner} is no list of names and values")
        found.append((name, value))
    return tuple(found)


def _cluster(cluster: _Fields, server: str, authorities: Source | None) -> str:
    """The Cluster of an ExecCredential's spec, as JSON."""
    told: dict[str, object] = {"server": server}
    if name := cluster.text("tls-server-name"):
        told["tls-server-name"] = name
    if cluster.switch("insecure-skip-tls-verify"):
        told["insecure-skip-tls-verify"] = True
    if authorities is not None:
        told["certificate-authority-data"] = base64.b64encode(authorities.read()).decode()
    extensions = cluster.values.get("extensions") or []
    for each in extensions if isinstance(extensions, list) else []:
        if isinstance(each, dict) and each.get("name") == EXEC_EXTENSION:
            told["config"] = each.get("extension")
    return json.dumps(told, default=str)
