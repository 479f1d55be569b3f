"""Service accounts with least authority in a running control plane.

Owns: creating an account, the Role and RoleBinding of its name, and getting tokens for it.
Guarantees: everything may be called again for the same account (the last rules win); an answer
of the API server that is not a success is raised as RequestRefusedError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from tools.harness.controlplane.access.service_account import TOKEN_REQUEST_MINIMUM, sign_token
from tools.harness.controlplane.clients.admin import AdminClient, Json, Told

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{RBAC_GROUP}/v1"
# An RBAC rule: apiGroups, resources, verbs and, if wanted, resourceNames.
Rule = Mapping[str, Sequence[str]]
# Seconds; longer than any test runs.
TOKEN_LIFETIME = 86400.0
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# Seconds.
RULES_TIMEOUT = 20.0


class RequestRefusedError(Exception):
    """The API server answered an administrator's request with an unexpected status."""


class ServiceAccounts:
    """Makes accounts as an administrator; `signing_key` is that of the API server."""

    def __init__(self, admin: AdminClient, signing_key: ec.EllipticCurvePrivateKey) -> None:
        self._admin = admin
        self._signing_key = signing_key

    def ensure(
        self,
        namespace: str,
        name: str,
        rules: Sequence[Rule],
        *,
        cluster_rules: Sequence[Rule] = (),
    ) -> None:
        """Creates the account, allows it `rules` in its namespace and `cluster_rules` anywhere.
        Returns when the API server, which learns them by watches of its own, goes by the last of
        each."""
        self._create_account(namespace, name)
        roles = f"{RBAC}/namespaces/{namespace}/roles"
        self._apply(roles, _role("Role", name, rules))
        binding = _binding("RoleBinding", name, "Role", namespace, name)
        self._apply(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
        if cluster_rules:
            cluster_name = f"{namespace}:{name}"
            self._apply(f"{RBAC}/clusterroles", _role("ClusterRole", cluster_name, cluster_rules))
            binding = _binding("ClusterRoleBinding", cluster_name, "ClusterRole", namespace, name)
            self._apply(f"{RBAC}/clusterrolebindings", binding)
        for rule in (*rules[-1:], *cluster_rules[-1:]):
            self._wait_in_force(namespace, name, rule)

    def token(
        self,
        namespace: str,
        name: str,
        *,
        expires_in: float = TOKEN_LIFETIME,
        pod: Json | None = None,
    ) -> str:
        """A token by TokenRequest or, where that refuses so short a life, signed right here. With
        a `pod` of the account, the token that kubelet would mount into it."""
        if expires_in >= TOKEN_REQUEST_MINIMUM:
            path = f"{_accounts(namespace)}/{name}/token"
            body: Json = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": int(expires_in)},
            }
            if pod is not None:
                reference = {it: pod["metadata"][it] for it in ("name", "uid")}
                body["spec"]["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", **reference}
            issued: str = expect(self._admin.post(path, body))["status"]["token"]
            return issued
        account = expect(self._admin.get(f"{_accounts(namespace)}/{name}"))
        return sign_token(
            self._signing_key,
            namespace=namespace,
            name=name,
            uid=account["metadata"]["uid"],
            expires_in=expires_in,
        )

    def revoke_tokens(self, namespace: str, name: str) -> None:
        """Deletes the account and creates it anew: its bindings still hold, but a token issued
        before gets 401, at the latest after 10 s (the API server's cache of tokens)."""
        expect(self._admin.delete(f"{_accounts(namespace)}/{name}"))
        self._create_account(namespace, name)

    def _wait_in_force(self, namespace: str, name: str, rule: Rule) -> None:
        wanted = {
            "namespace": namespace,
            "group": rule["apiGroups"][0],
            "resource": rule["resources"][0].partition("/")[0],
            "subresource": rule["resources"][0].partition("/")[2],
            "verb": rule["verbs"][0],
            "name": rule.get("resourceNames", [""])[0],
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{name}",
                "resourceAttributes": wanted,
            },
        }
        end = time.monotonic() + RULES_TIMEOUT
        while not expect(self._admin.post(REVIEWS, review))["status"]["allowed"]:
            if time.monotonic() > end:
                raise TimeoutError(f"{name} may not do what it is allowed: {wanted}")
            time.sleep(0.02)

    def _create_account(self, namespace: str, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        answer = self._admin.post(_accounts(namespace), body)
        if answer[0] != HTTPStatus.CONFLICT:
            expect(answer)

    def _apply(self, collection: str, body: Json) -> None:
        answer = self._admin.post(collection, body)
        if answer[0] == HTTPStatus.CONFLICT:
            answer = self._admin.put(f"{collection}/{body['metadata']['name']}", body)
        expect(answer)


def expect(answer: Told) -> Json:
    """The object of a successful answer. Raises RequestRefusedError."""
    status, body = answer
    if status >= HTTPStatus.BAD_REQUEST:
        raise RequestRefusedError(f"{status} {body.get('reason', '')}: {body.get('message', '')}")
    return body


def _accounts(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts"


def _role(kind: str, name: str, rules: Sequence[Rule]) -> Json:
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": [{field: list(values) for field, values in rule.items()} for rule in rules],
    }


def _binding(kind: str, name: str, role_kind: str, namespace: str, account: str) -> Json:
    subject: dict[str, Any] = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": name},
        "subjects": [subject],
    }
