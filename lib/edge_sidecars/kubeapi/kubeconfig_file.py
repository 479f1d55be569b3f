"""One context of one kubeconfig, or of several that are merged.

Follows client-go (tools/clientcmd): of several files the first to name a cluster, user, context or
current-context wins; relative paths are relative to the file that they are in. Only reads; what
the files that it names hold is the business of `kubeconfig`.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.kubeapi.credentials import checked_token
from edge_sidecars.kubeapi.exec_plugin import ExecSpec
from edge_sidecars.runtime.cli.proxies import HttpProxy, http_proxy
from edge_sidecars.runtime.cli.values import BadInput, api_server_url
from edge_sidecars.runtime.formats.yaml_text import parsed

# Of the cluster, which plugins that want it get (client.authentication.k8s.io, ExecConfig.Cluster).
EXEC_EXTENSION = "client.authentication.k8s.io/exec"

_Mapping = Mapping[str, object]


@dataclass(frozen=True)
class FileOrInline:
    """Content of a field of the kubeconfig, or the file that has it."""

    path: Path | None
    inline: bytes = b""

    def read(self) -> bytes:
        """Raises OSError."""
        return self.inline if self.path is None else self.path.read_bytes()


@dataclass(frozen=True)
class KubeContext:
    """One cluster as one user sees it. `authorization`: the header, where no file has its token.
    `proxy`: None where none is named; the environment may name one."""

    name: str
    namespace: str | None
    server: str
    tls_server_name: str | None
    is_insecure: bool
    authorities: FileOrInline | None
    pair: tuple[FileOrInline, FileOrInline] | None  # certificate and key
    authorization: str | None
    token_file: Path | None
    plugin: ExecSpec | None
    proxy: HttpProxy | None


def kubeconfig_paths(path: Path) -> tuple[Path, ...]:
    """One file, or several with a colon between, as the variable KUBECONFIG has them. Raises
    ValueError for a home that no user has."""
    if os.path.exists(expanded(path)):
        return (expanded(path),)
    return tuple(expanded(Path(each)) for each in str(path).split(os.pathsep) if each)


def expanded(path: Path) -> Path:
    """With the folder that `~` means. Raises ValueError where no user has it."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path} is in the home of no user: name its folder") from error


def read_context(paths: Sequence[Path], name: str | None) -> KubeContext:
    """Of the context `name`, or of the current one. Raises OSError, or ValueError naming the field.

    Of several files some may be missing, as with KUBECONFIG, but not all.
    """
    texts: dict[Path, str] = {}
    missing = 0
    for path in paths:
        try:
            texts[path] = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            missing += 1
            if missing == len(paths):
                raise
    return context_of_texts(texts, name)


def context_of_texts(texts: Mapping[Path, str], name: str | None) -> KubeContext:
    """As `read_context`, of what the files hold, by their paths. Raises ValueError."""
    found: dict[str, dict[str, _Fields]] = {"cluster": {}, "user": {}, "context": {}}
    current: str | None = None
    for path, text in texts.items():
        content = _Fields(mapping(text, path), str(path), path.absolute().parent)
        current = current or content.text("current-context")
        for kind, entries in found.items():
            found[kind] = content.entries(kind) | entries
    chosen = name or current
    if not chosen:
        raise ValueError("it has no current-context")
    context = _entry(found, "context", chosen)
    cluster_name, user_name = context.text("cluster"), context.text("user")
    if cluster_name is None:
        raise ValueError(f"context {chosen} names no cluster")
    cluster = _entry(found, "cluster", cluster_name)
    user = _Fields({}, "", cluster.folder)
    if user_name is not None:
        user = _entry(found, "user", user_name)
    return _context(chosen, context.text("namespace"), cluster, user)


def mapping(text: str, path: Path) -> _Mapping:
    """What a kubeconfig holds; `path`: of it. Raises ValueError."""
    content = parsed(text)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no mapping")
    return content


def _entry(found: Mapping[str, Mapping[str, "_Fields"]], kind: str, name: str) -> "_Fields":
    if name not in found[kind]:
        raise ValueError(f"{kind} {name} does not exist")
    return found[kind][name]


@dataclass(frozen=True)
class _Fields:
    """Those of a kubeconfig or one of its entries; `owner` for messages, `folder` is where the
    kubeconfig is."""

    values: _Mapping
    owner: str
    folder: Path

    def entries(self, kind: str) -> dict[str, "_Fields"]:
        """Those of a list by name; each holds its mapping under the singular of the list."""
        entries, owner = self.values.get(f"{kind}s") or [], f"{kind}s of {self.owner}"
        if not isinstance(entries, list):
            raise ValueError(f"{owner} is no list")
        found: dict[str, _Fields] = {}
        for entry in entries:
            values = entry.get(kind) or {} if isinstance(entry, dict) else None
            if not isinstance(values, dict):
                raise ValueError(f"{owner} has an entry that is no mapping")
            name = entry.get("name")
            if not isinstance(name, str):
                raise ValueError(f"{owner} has an entry without a name")
            if name in found:
                raise ValueError(f"{owner} has {name} twice")
            found[name] = _Fields(values, f"{kind} {name}", self.folder)
        return found

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{name} of {self.owner} is not text")
        return value or None

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return None if text is None else self.folder / expanded(Path(text))

    def switch(self, name: str) -> bool:
        value = self.values.get(name) or False
        if not isinstance(value, bool):
            raise ValueError(f"{name} of {self.owner} is neither true nor false")
        return value

    def source(self, name: str) -> FileOrInline | None:
        """Data wins over a path, as client-go has it."""
        data, path = self.text(f"{name}-data"), self.path(name)
        if data is None:
            return None if path is None else FileOrInline(path)
        try:
            return FileOrInline(None, base64.b64decode("".join(data.split()), validate=True))
        except ValueError as error:
            raise ValueError(f"{name}-data of {self.owner} is not base64") from error

    def refuse(self, names: Sequence[str], remedy: str) -> None:
        for name in names:
            if self.values.get(name):
                raise ValueError(f"{name} of {self.owner} is not supported: {remedy}")


def _context(name: str, namespace: str | None, cluster: _Fields, user: _Fields) -> KubeContext:
    user.refuse(["auth-provider"], "use an exec plugin, such as kubelogin for OIDC")
    user.refuse(
        ["as", "as-uid", "as-groups", "as-user-extra"],
        "a user of its own with the rights that are needed takes its place",
    )
    server = cluster.text("server")
    if server is None:
        raise ValueError(f"{cluster.owner} names no server")
    try:
        api_server_url(server)
    except BadInput as error:
        raise ValueError(f"server of {cluster.owner}: {error}") from error
    authorities = cluster.source("certificate-authority")
    is_insecure = cluster.switch("insecure-skip-tls-verify")
    if is_insecure and authorities is not None:
        raise ValueError(
            f"{cluster.owner} has a certificate-authority and insecure-skip-tls-verify: drop one"
        )
    certificate, key = user.source("client-certificate"), user.source("client-key")
    if (certificate is None) != (key is None):
        raise ValueError(f"{user.owner} has client-certificate or client-key without the other")
    return KubeContext(
        name=name,
        namespace=namespace,
        server=server.rstrip("/"),
        tls_server_name=cluster.text("tls-server-name"),
        is_insecure=is_insecure,
        authorities=authorities,
        pair=None if certificate is None or key is None else (certificate, key),
        authorization=_authorization(user),
        token_file=user.path("tokenFile"),
        plugin=_plugin(user, cluster, server, authorities),
        proxy=_proxy(cluster),
    )


def _proxy(cluster: _Fields) -> HttpProxy | None:
    value = cluster.text("proxy-url")
    if value is None:
        return None
    try:
        if "://" not in value:  # client-go takes no host alone here
            shown = value.rpartition("@")[2]
            raise BadInput(f"{shown!r:.80} has no scheme: write it like http://proxy.example:3128")
        return http_proxy(value)
    except BadInput as error:
        raise ValueError(f"proxy-url of {cluster.owner}: {error}") from error


def _authorization(user: _Fields) -> str | None:
    token, user_name = user.text("token"), user.text("username")
    if user_name is None:
        refusal = "token of its user"
        return None if token is None else f"Bearer {checked_token(token, refusal=refusal)}"
    if token is not None or user.path("tokenFile") is not None:
        raise ValueError(f"{user.owner} has a token and a username: drop one")
    pair = f"{user_name}:{user.text('password') or ''}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _plugin(
    user: _Fields, cluster: _Fields, server: str, authorities: FileOrInline | None
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
        command = str(user.folder / expanded(Path(command)))
    arguments = values.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ValueError(f"args of {it.owner} is no list of texts")
    wants_cluster = it.switch("provideClusterInfo")
    return ExecSpec(
        owner=user.owner,
        command=command,
        arguments=tuple(arguments),
        environ=_environ(values.get("env") or [], it.owner),
        api_version=it.text("apiVersion") or "",
        interactive_mode=it.text("interactiveMode") or "",
        install_hint=it.text("installHint") or "",
        cluster=_cluster(cluster, server, authorities) if wants_cluster else None,
    )


def _environ(values: object, owner: str) -> dict[str, str]:
    found = {}
    for each in values if isinstance(values, list) else [None]:
        name, value = (each.get("name"), each.get("value")) if isinstance(each, dict) else (0, 0)
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(f"env of {owner} is no list of names and values")
        found[name] = value
    return found


def _cluster(cluster: _Fields, server: str, authorities: FileOrInline | None) -> _Mapping:
    """The Cluster of an ExecCredential's spec."""
    fields: dict[str, object] = {"server": server}
    if name := cluster.text("tls-server-name"):
        fields["tls-server-name"] = name
    if proxy := cluster.text("proxy-url"):
        fields["proxy-url"] = proxy
    if cluster.switch("insecure-skip-tls-verify"):
        fields["insecure-skip-tls-verify"] = True
    if authorities is not None:
        fields["certificate-authority-data"] = base64.b64encode(authorities.read()).decode()
    extensions = cluster.values.get("extensions") or []
    for each in extensions if isinstance(extensions, list) else []:
        if isinstance(each, dict) and each.get("name") == EXEC_EXTENSION:
            fields["config"] = each.get("extension")
    return fields
