"""Each component as a process beside no API server at all, with each of its HTTP listeners."""

import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.reservation import LOOPBACK, Reservation

START_TIMEOUT = 30.0
# In the file `token` of a target's folder.
TOKEN = "a-token-of-some-length"
# As many as the flood of 5,000 needs.
DESCRIPTORS = 8192
# A server that is not there, and credentials that nobody asks for.
KUBECONFIG = f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://{LOOPBACK}:9"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u, namespace: shop}}}}]
current-context: c
"""


@dataclass(frozen=True)
class Target:
    """`flags` with {port...} and {folder}, which has kubeconfig, https (another one) and token;
    `flooded`, `main`: which port strangers come to, and which one the main asks meanwhile.
    `figures`: which one has /status, "" for none."""

    module: str
    flags: tuple[str, ...]
    ports: tuple[str, ...]
    flooded: str
    main: str
    figures: str = ""


ELECTOR = Target(
    "elector_sidecar",
    (
        "--kubeconfig={folder}/kubeconfig",
        "--lease=web",
        "--listen=127.0.0.1:{api}",
        "--probe-listen=127.0.0.1:{probes}",
    ),
    ("api", "probes"),
    "probes",
    "api",
)
RELAY = Target(
    "relay_sidecar",
    (
        "--kubeconfig={folder}/kubeconfig",
        "--listen=127.0.0.1:{api}",
        "--status-listen=127.0.0.1:{status}",
        "--data-dir={folder}/data",
    ),
    ("api", "status"),
    "status",
    "status",
    "status",
)
_POOL = (
    "--pool=http://127.0.0.1:9",
    "--pool-token-file={folder}/token",
    "--pool-resource=services",
    "--pool-listen=127.0.0.1:{pool}",
    "--endpoint-view=127.0.0.1:{view}",
)
RELAY_OF_POOL = replace(
    RELAY,
    flags=("--kubeconfig={folder}/https", *RELAY.flags[1:], *_POOL),
    ports=(*RELAY.ports, "pool", "view"),
)
RELAY_OVER_TLS = Target(
    "relay_sidecar",
    (
        *RELAY.flags,
        "--tls-cert-file={folder}/serving.crt",
        "--tls-private-key-file={folder}/serving.key",
    ),
    RELAY.ports,
    "api",
    "status",
    "status",
)
GM = Target(
    "gm",
    (
        "--listen=127.0.0.1:{own}",
        "--stream-listen=127.0.0.1:{streams}",
        "--sedna-listen=127.0.0.1:{sedna}",
    ),
    ("own", "streams", "sedna"),
    "own",
    "own",
    "own",
)
LC = Target(
    "lc",
    ("--node=edge-a", "--root={folder}", "--bind-port={api}", "--mode=relay"),
    ("api",),
    "api",
    "api",
    "api",
)
POOL_CONTROLLER = Target(
    "pool_sidecar",
    ("controller", "--kubeconfig={folder}/kubeconfig", "--listen=127.0.0.1:{own}"),
    ("own",),
    "own",
    "own",
    "own",
)


def listening(target: Target, flooded: str) -> Target:
    return replace(target, flooded=flooded)


TARGETS: Mapping[str, Target] = {
    "elector, probes": ELECTOR,
    "relay, status": RELAY,
    "relay, API": listening(RELAY, "api"),
    "relay, API over TLS": RELAY_OVER_TLS,
    "gm, own": GM,
    "gm, websocket": listening(GM, "sedna"),
    "gm, gRPC": listening(GM, "streams"),
    "lc": LC,
    "pool controller": POOL_CONTROLLER,
}


@dataclass(frozen=True)
class Running:
    pid: int
    flooded: int
    main: int
    log: Path
    figures: int | None

    def refused(self) -> int | None:
        """Of strangers at the flooded port, as /status has it; None where there is none."""
        if self.figures is None:
            return None
        with closing(http.client.HTTPConnection(LOOPBACK, self.figures, timeout=5)) as connection:
            connection.request("GET", "/status")
            with connection.getresponse() as answer:
                listeners = json.load(answer)["listeners"]
        [of_port] = [it for it in listeners if it["listen"].endswith(f":{self.flooded}")]
        assert of_port["unfinishedBytes"] <= of_port["maxUnfinishedBytes"]
        assert of_port["connections"] <= of_port["maxConnections"]
        return int(of_port["malformed"])

    @property
    def resident(self) -> float:
        """In MiB: what is not the files' that it has mapped."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise AssertionError("it has ended")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def is_live(self) -> bool:
        with closing(http.client.HTTPConnection(LOOPBACK, self.main, timeout=5)) as connection:
            try:
                connection.request("GET", "/livez")
                with connection.getresponse() as answer:
                    return answer.status == 200
            except (OSError, http.client.HTTPException):
                return False


@contextmanager
def running(target: Target) -> Iterator[Running]:
    held = {name: Reservation() for name in target.ports}
    ports = {name: it.port for name, it in held.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
        https = KUBECONFIG.replace("http:", "https:")
        (folder / "https").write_text(https, encoding="utf-8")
        (folder / "token").write_text(TOKEN, encoding="utf-8")
        (folder / "token").chmod(0o600)
        Authority(folder, "ca").issue_server("serving", hosts=[LOOPBACK])
        flags = [each.format(folder=folder, **ports) for each in target.flags]
        log = folder / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                [sys.executable, "-m", target.module, *flags],
                stderr=output,
                env={"PATH": os.environ["PATH"], "POD_NAME": "p"},
            ) as process,
        ):
            try:
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
                figures = ports.get(target.figures)
                it = Running(process.pid, ports[target.flooded], ports[target.main], log, figures)
                deadline = time.monotonic() + START_TIMEOUT
                while not it.is_live():
                    assert process.poll() is None, log.read_text(encoding="utf-8")
                    assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                    time.sleep(0.05)
                yield it
            finally:
                process.kill()
                for each in held.values():
                    each.release()
