"""Service accounts as pods know them: tokens of any lifetime, and the mounted directory.

Guarantees: `sign_token` makes what the API server's own TokenRequest would make, but also
lifetimes that it refuses; a directory is updated as kubelet does it, by renaming one symbolic
link, so that a reader sees the old files or the new ones and never half of either.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER = "https://kubernetes.default.svc.cluster.local"
# Seconds below which TokenRequest refuses: pkg/apis/authentication/validation/validation.go.
TOKEN_REQUEST_MINIMUM = 600.0
# Seconds that the API server allows for skew of clocks: DefaultLeeway of go-jose's jwt package.
EXPIRY_LEEWAY = 60.0
# Bytes of each of the two numbers of an ES256 signature: RFC 7518, section 3.4.
ES256_NUMBER_LENGTH = 32


def sign_token(
    key: ec.EllipticCurvePrivateKey,
    *,
    namespace: str,
    name: str,
    uid: str,
    expires_in: float,
) -> str:
    """A token of the service account that the API server stops to accept in `expires_in` seconds
    (0 or less: expired), give or take one second: its leeway is taken into account. A token that
    was accepted before stays so for up to 10 s more (the API server's cache of tokens)."""
    now = time.time()
    expiry = int(now + expires_in - EXPIRY_LEEWAY)
    start = min(int(now), expiry) - int(TOKEN_REQUEST_MINIMUM)
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "iat": start,
        "nbf": start,
        "exp": expiry,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
    }
    signed = f"{_segment({'alg': 'ES256', 'typ': 'JWT'})}.{_segment(claims)}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    numbers = (number.to_bytes(ES256_NUMBER_LENGTH, "big") for number in (r, s))
    return f"{signed}.{_base64url(b''.join(numbers))}"


class ServiceAccountDirectory:
    """A directory with `token`, `ca.crt` and `namespace`, as kubelet mounts it into pods."""

    def __init__(self, path: Path, *, token: str, ca: bytes, namespace: str) -> None:
        path.mkdir(parents=True)
        self.path = path
        self._files = {"token": token.encode(), "ca.crt": ca, "namespace": namespace.encode()}
        self._generation = 0
        self._publish()
        for name in self._files:
            (path / name).symlink_to(Path("..data") / name)

    def replace(self, *, token: str | None = None, ca: bytes | None = None) -> None:
        """Puts new contents in place, both at the same moment."""
        if token is not None:
            self._files["token"] = token.encode()
        if ca is not None:
            self._files["ca.crt"] = ca
        self._publish()

    def _publish(self) -> None:
        """The steps of kubelet's pkg/volume/util/atomic_writer.go."""
        data = self.path / "..data"
        previous = self.path / os.readlink(data) if data.is_symlink() else None
        self._generation += 1
        folder = self.path / f"..generation-{self._generation}"
        folder.mkdir()
        for name, content in self._files.items():
            (folder / name).write_bytes(content)
        temporary = self.path / "..data_tmp"
        temporary.symlink_to(folder.name)
        temporary.rename(data)
        if previous is not None:
            shutil.rmtree(previous)


def _segment(content: dict[str, Any]) -> str:
    return _base64url(json.dumps(content).encode())


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
