"""Writes the checksum of each ConfigMap that asks for one, by a label, into an annotation of it.

Any number of replicas run it, each beside an elector with --shards, which says what is whose. It
needs Python's standard library only; `owns` and `follow` are all that makes it active-active.
"""

import hashlib
import json
import os
import ssl
import threading
import time
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

ELECTOR = os.environ.get("ELECTOR", "http://127.0.0.1:4040")
API = os.environ.get("API", "https://kubernetes.default.svc")
ACCOUNT = os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount")
NAME, LIMIT = "example.com/checksum", 5  # label and annotation; seconds that a write may take
working, changed = threading.Lock(), threading.Event()
tls = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")


def call(method, url, body=None):
    headers = {"Content-Type": "application/merge-patch+json"}
    if url.startswith(API):
        with open(f"{ACCOUNT}/token") as token:
            headers["Authorization"] = f"Bearer {token.read()}"
    content = None if body is None else json.dumps(body).encode()
    return urlopen(Request(url, content, headers, method=method), timeout=LIMIT, context=tls)


def owns(uid):
    try:
        return call("GET", f"{ELECTOR}/owns?uid={uid}&min_remaining={LIMIT}s").status == 200
    except HTTPError:
        return False


def follow():
    while True:
        try:
            for line in call("GET", f"{ELECTOR}/shards?watch=true"):
                for it in json.loads(line)["handingOver"]:
                    with working:  # what was begun has ended, and /owns refuses what comes next
                        query = urlencode({"token": it["fencingToken"]})
                    call("POST", f"{ELECTOR}/shards/{it['shard']}/released?{query}")
                changed.set()  # each second at least
        except OSError as error:
            print("the elector does not answer:", error, flush=True)
            time.sleep(0.5)


def reconcile(it):
    meta = it["metadata"]
    checksum = hashlib.sha256(json.dumps(it.get("data"), sort_keys=True).encode()).hexdigest()
    if meta.get("annotations", {}).get(NAME) != checksum:
        patch = {key: meta[key] for key in ("uid", "resourceVersion")}
        path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}"
        with working:
            if owns(meta["uid"]):
                call("PATCH", API + path, {"metadata": patch | {"annotations": {NAME: checksum}}})


threading.Thread(target=follow, daemon=True).start()
while changed.wait():
    changed.clear()
    try:
        selector = json.load(call("GET", f"{ELECTOR}/shards"))["selector"]
        query = urlencode({"labelSelector": f"{NAME}=wanted", "shardSelector": selector or ""})
        listed = call("GET", f"{API}/api/v1/configmaps?{query}") if selector else None
        for it in json.load(listed)["items"] if listed else ():
            reconcile(it)
    except OSError as error:
        print("again with the next document:", error, flush=True)
