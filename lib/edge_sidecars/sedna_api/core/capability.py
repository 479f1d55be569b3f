"""By what LC knows a worker: a secret in the URL of LC that GM gives to this worker alone.

GM keeps one random key with each object whose workers report, in an annotation; an LC has the key
with the object, in each mode and after a restart. A worker has, in its LC_SERVER, the HMAC of its
name under that key. Guarantees: the holder of a worker's capability can speak for this worker only;
a key that was copied to another object is none there; comparing takes the same time for each text.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

# Of an object: its uid and its key, which counts for this uid only.
WORKER_KEY: Final = "sedna.io/worker-key"
# What precedes a capability in LC's paths.
PREFIX: Final = "/w/"
# Bytes of a key: 128 bits cannot be guessed.
KEY_BYTES: Final = 16

_KEY: Final = re.compile(r"(.+):([0-9a-f]{32,128})", re.ASCII)


def key_for(uid: str, key: str) -> str:
    """The annotation's value. `key` in hexadecimal digits."""
    return f"{uid}:{key}"


def key_of(annotations: Mapping[str, object], uid: str) -> str:
    """The key of the object with this uid; "" where there is none, or it is another object's."""
    value = annotations.get(WORKER_KEY)
    found = _KEY.fullmatch(value) if isinstance(value, str) else None
    return found[2] if found is not None and uid and found[1] == uid else ""


def capability(key: str, *, uid: str, worker: str, node: str = "") -> str:
    """`node`: where the worker's template puts it, "" where the scheduler does."""
    # No part has a line feed: names of Kubernetes.
    message = "\n".join((uid, worker, node)).encode(errors="surrogatepass")
    digest = hmac.digest(bytes.fromhex(key), message, hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_capability(given: str, key: str, *, uid: str, worker: str, node: str) -> bool:
    """Whether a text is that of a worker which runs on this node."""
    wanted = [capability(key, uid=uid, worker=worker, node=it) for it in (node, "")]
    told = given.encode(errors="surrogatepass")
    on_this_node, anywhere = (hmac.compare_digest(told, it.encode()) for it in wanted)
    return on_this_node or anywhere
