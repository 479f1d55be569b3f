"""The API server as kubectl finds it, and what is read of it: Leases and pods of one namespace.

Guarantees: each failure is one line; a refusal (403) names the rule that the reader's Role lacks.
A read is one request, whatever there is to read. Times are by the API server's clock, since this
machine's may be another.
"""

import argparse
import email.utils
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_sidecars.runtime.cli.options import (
    SERVICE_ACCOUNT_DIR,
    api_server,
    flag,
    may_be_there,
    named,
    pod_namespace,
)
from edge_sidecars.runtime.cli.proxies import proxy_variables
from edge_sidecars.runtime.cli.values import BadInput, api_server_url
from edge_sidecars.runtime.formats.rfc1123 import is_label, is_subdomain
from elector_sidecar.core.lease import Lease, MalformedLease, parse_lease

if TYPE_CHECKING:
    from edge_sidecars.kubeapi import Credentials

# As kubectl shows what is not there.
NONE = "<none>"
# Seconds for one answer.
TIMEOUT = 10.0
# Seconds: the API server tells its time in whole ones, some time before its answer has come.
CLOCK_TOLERANCE = 2.0
FLAGS = ("namespace", "kubeconfig", "context", "server", "service_account_dir")
_GROUP = "coordination.k8s.io"


class Failed(Exception):
    """Nothing could be learnt; the message is one line for people."""


def add_flags(
    it: argparse.ArgumentParser, *, needs: str = "", all_namespaces: bool = False
) -> None:
    """`needs`: the flag without which these mean nothing. `all_namespaces`: with -A."""
    before = f"with {needs}: " if needs else ""
    for name, value, text in (
        ("namespace", "NAMESPACE", "default: the kubeconfig context's, or the pod's own"),
        (
            "kubeconfig",
            "FILE[:FILE]",
            "default: $KUBECONFIG, else ~/.kube/config, else the pod's service account",
        ),
        ("context", "NAME", "of the kubeconfig; default: its current one"),
        ("server", "URL", "overrides the address"),
        ("service-account-dir", "DIR", f"default {SERVICE_ACCOUNT_DIR}"),
    ):
        short = ["-n"] if name == "namespace" else []
        it.add_argument(*short, f"--{name}", metavar=value, help=f"{before}{text}")
    if all_namespaces:
        it.add_argument("-A", "--all-namespaces", action="store_true", help="not only of one")


def check_lease(text: str, *, what: str) -> str:
    """Raises `BadInput`; `what` the text is of."""
    if not is_subdomain(text):
        raise BadInput(f"{what} {text!r:.80} is not a Lease name: lower-case, digits, - .")
    return text


class Cluster:
    """Of one namespace; "" means all of them."""

    def __init__(
        self, given: argparse.Namespace, environ: Mapping[str, str], *, user_agent: str
    ) -> None:
        """Raises `BadInput`."""
        from edge_sidecars.kubeapi import ApiClient

        if given.namespace and not is_label(given.namespace):
            raise BadInput(
                f"--namespace {given.namespace!r:.80} is not a namespace: lower-case, digits and -"
            )
        if given.server is not None:
            named("server", api_server_url, given.server)
        credentials, namespace = _credentials(given, environ)
        if getattr(given, "all_namespaces", False):
            namespace = ""
        elif not namespace:
            raise BadInput(
                "--namespace is missing, and neither kubeconfig nor pod has one: name it"
            )
        self.namespace = namespace
        self.server = ApiClient(credentials, user_agent=user_agent)
        # Of the API server's clock above this machine's: seconds.
        self._ahead = 0.0

    def now(self) -> float:
        """Epoch seconds by the API server's clock, as its last answer has it."""
        return time.time() + self._ahead

    async def close(self) -> None:
        await self.server.close()

    async def lease(self, name: str) -> Lease:
        """Raises `Failed`."""
        path = f"{self._path('leases')}/{name}"
        try:
            return parse_lease(await self.request("get", path, "leases", name=name))
        except MalformedLease as error:
            raise Failed(f"Lease {self.namespace}/{name}: {error}") from error

    async def write_lease(self, name: str, body: Mapping[str, Any]) -> None:
        """By compare-and-swap. Raises `Failed`, and `Conflict` where the Lease has changed."""
        path = f"{self._path('leases')}/{name}"
        await self.request("update", path, "leases", name=name, method="PUT", body=body)

    async def leases(self, *, label: str = "") -> list[Lease]:
        """Those that are none are left out. Raises `Failed`."""
        params = {"labelSelector": label} if label else {}
        listed = await self.request("list", self._path("leases"), "leases", params=params)
        found = []
        for item in self._items(listed, "leases"):
            try:
                found.append(parse_lease(item))
            except MalformedLease:
                continue
        return found

    async def pods(self) -> tuple[list[dict[str, Any]], str]:
        """With the resourceVersion from which to watch. Raises `Failed`."""
        listed = await self.request("list", self._path("pods"), "pods")
        items = self._items(listed, "pods")
        return items, listed["metadata"]["resourceVersion"]

    def _items(self, listed: Mapping[str, Any], resource: str) -> list[dict[str, Any]]:
        """Raises `Failed` for the answer of what is no API server."""
        items, metadata = listed.get("items") or [], listed.get("metadata") or {}
        is_list = isinstance(items, list) and isinstance(metadata, dict)
        if not is_list or not isinstance(metadata.get("resourceVersion"), str):
            raise Failed(f"{self._called(resource, '')}: {self.server.url} is no Kubernetes API")
        return [it for it in items if _is_object(it)]

    async def watch(
        self, resource: str, version: str, *, name: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch. Raises `Failed` for a refusal, `ApiError`, `Unreachable`."""
        from edge_sidecars.kubeapi import Forbidden

        params = {"watch": "true", "resourceVersion": version}
        if name:
            params["fieldSelector"] = f"metadata.name={name}"
        lines = self.server.lines(self._path(resource), open_timeout=TIMEOUT, params=params)
        try:
            async with aclosing(lines):
                async for line in lines:
                    yield line
        except Forbidden as error:
            raise Failed(self._lack("watch", resource, name, error)) from error

    async def request(
        self,
        verb: str,
        path: str,
        resource: str,
        *,
        name: str = "",
        params: Mapping[str, str] | None = None,
        method: str = "GET",
        body: object = None,
    ) -> dict[str, Any]:
        """The answer. `verb`, `resource`: as RBAC has them. Raises `Failed`; `Conflict`."""
        from edge_sidecars.kubeapi import ApiError, Conflict, Forbidden, Unreachable

        began = time.time()
        try:
            answer = await self.server.request(
                method, path, timeout=TIMEOUT, params=params, body=body
            )
            self._note_clock(took=time.time() - began)
            return answer
        except Conflict:
            raise
        except Forbidden as error:
            raise Failed(self._lack(verb, resource, name, error)) from error
        except (ApiError, Unreachable) as error:
            raise Failed(f"{self._called(resource, name)}: {error}") from error

    def _note_clock(self, *, took: float) -> None:
        try:
            date = email.utils.parsedate_to_datetime(self.server.answered_at or "")
        except ValueError:
            return
        ahead = date.timestamp() - time.time()
        self._ahead = ahead if abs(ahead) > CLOCK_TOLERANCE + max(took, 0.0) else 0.0

    def _path(self, resource: str) -> str:
        api = f"/apis/{_GROUP}/v1" if resource == "leases" else "/api/v1"
        return (
            f"{api}/namespaces/{self.namespace}/{resource}"
            if self.namespace
            else (f"{api}/{resource}")
        )

    def _called(self, resource: str, name: str) -> str:
        where = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"Lease {self.namespace}/{name}" if name else f"{resource} of {where}"

    def _lack(self, verb: str, resource: str, name: str, error: Exception) -> str:
        group = _GROUP if resource == "leases" else ""
        names = f'resourceNames: ["{name}"], ' if name and verb != "watch" else ""
        role = f"Role in namespace {self.namespace}" if self.namespace else "ClusterRole"
        done = {"get": "read", "update": "written"}.get(verb, f"{verb}ed")
        return (
            f"{self._called(resource, name)} may not be {done}: {error}; needs a {role}: "
            f'[{{apiGroups: ["{group}"], resources: ["{resource}"], {names}verbs: ["{verb}"]}}]'
        )


def _is_object(item: object) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("spec") or {}, dict):
        return False
    metadata = item.get("metadata")
    names = ("name", "namespace", "uid", "resourceVersion")
    return isinstance(metadata, dict) and all(isinstance(metadata.get(it), str) for it in names)


def _credentials(
    given: argparse.Namespace, environ: Mapping[str, str]
) -> tuple["Credentials", str | None]:
    """As kubectl finds them: a kubeconfig, else the pod's service account, or none for a server
    over http; and the namespace. Raises `BadInput`."""
    from edge_sidecars.kubeapi import UnusableCredentials, pod_credentials
    from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
    from edge_sidecars.kubeapi.kubeconfig_file import kubeconfig_paths

    proxies = proxy_variables(environ)
    path = Path(given.kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config")
    is_named = given.kubeconfig or environ.get("KUBECONFIG") or given.context
    is_plain = (given.server or "").startswith("http:")
    needs_none = is_plain or environ.get("KUBERNETES_SERVICE_HOST")
    named_folder = given.service_account_dir
    if named_folder and (given.kubeconfig or given.context):
        other = flag("kubeconfig" if given.kubeconfig else "context")
        raise BadInput(
            f"--service-account-dir {named_folder:.80} and {other} exclude each other: drop one"
        )
    try:
        if named_folder or (
            needs_none and not is_named and not any(map(may_be_there, kubeconfig_paths(path)))
        ):
            folder = Path(named_folder or SERVICE_ACCOUNT_DIR)
            server = given.server or api_server(environ, remedy="name a --kubeconfig")
            own = pod_namespace(environ, folder, remedy="name the --namespace")
            return pod_credentials(server, folder, proxies), given.namespace or own
        found = Kubeconfig(
            path,
            server=given.server,
            context=given.context,
            flag=_source(given, environ),
            proxies=proxies,
        )
    except UnusableCredentials as error:
        raise BadInput(str(error)) from error
    return found, given.namespace or found.namespace


def _source(given: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """What named the kubeconfig."""
    if given.kubeconfig:
        return "--kubeconfig"
    return "$KUBECONFIG" if environ.get("KUBECONFIG") else "the usual kubeconfig"
