"""Pods and edge nodes as processes of this machine, each with ports and a link of its own.

Owns the processes, their fixed localhost ports and a proxy each, which is the only way to the API
server. Guarantees: all of it dies with the demo, however that ends (the control plane's guardian
watches); Ctrl-C in the terminal does not reach the processes.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.demo.cluster import Cluster
from tools.demo.elector.edge import RULES as EDGE_RULES
from tools.demo.elector.pod import RULES, elector_flags
from tools.demo.environment import END_TIMEOUT, TAIL, EdgeParts, Environment, PodParts
from tools.demo.timing import Timing
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.guardian import Guardian
from tools.harness.controlplane.reservation import LOOPBACK, Reservation

ROOT = Path(__file__).parents[3]


class Process:
    """A module of this checkout with its arguments."""

    def __init__(self, arguments: Sequence[str], *, log: Path, guardian: Guardian) -> None:
        self._arguments = arguments
        self._log = log
        self._guardian = guardian
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments],
                cwd=ROOT,
                env={"PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guardian.watch(self._process.pid)

    def end(self, number: signal.Signals) -> int | None:
        if self._process is None:
            return None
        self._process.send_signal(number)
        try:
            return self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None

    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def log_tail(self) -> Sequence[str]:
        if not self._log.exists():
            return []
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]


class ProxyLink:
    """Cut without a word to anybody: connections stay, nothing moves."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    def cut(self) -> None:
        self._proxy.black_hole()

    def heal(self) -> None:
        self._proxy.heal()


class ProcessPlace:
    """What it makes ends with the stack."""

    def __init__(self, plane: ApiServer, stack: ExitStack) -> None:
        self.plane = plane
        self._stack = stack

    @property
    def ledger(self) -> Path:
        return self.plane.folder / "ledger"

    def pod(self, name: str, namespace: str, timing: Timing) -> PodParts:
        proxy = self._proxy()
        port, main_port = self._port(), self._port()
        account = self.plane.service_account_dir(namespace, "elector", RULES)
        sidecar = [
            *("elector_sidecar", "--listen", f"{LOOPBACK}:{port}", "--server", proxy.url),
            *("--service-account-dir", str(account.path)),
            *elector_flags(name, timing, main=f"http://{LOOPBACK}:{main_port}"),
        ]
        main = [
            *("tools.demo.main", "--elector", f"http://{LOOPBACK}:{port}"),
            *("--listen", f"{LOOPBACK}:{main_port}", "--ledger", str(self.ledger)),
        ]
        return PodParts(
            sidecar=self._process(f"{name}-elector", sidecar),
            main=self._process(f"{name}-main", main),
            link=ProxyLink(proxy),
            host=LOOPBACK,
            port=port,
            main_port=main_port,
        )

    def edge(self, namespace: str) -> EdgeParts:
        proxy = self._proxy()
        port, status_port = self._port(), self._port()
        account = self.plane.service_account_dir(namespace, "edge-relay", EDGE_RULES)
        relay = [
            *("relay_sidecar", "--server", proxy.url),
            *("--service-account-dir", str(account.path)),
            *("--listen", f"{LOOPBACK}:{port}", "--status-listen", f"{LOOPBACK}:{status_port}"),
            *("--data-dir", str(self.plane.folder / "edge")),
        ]
        return EdgeParts(
            relay=self._process("edge", relay),
            link=ProxyLink(proxy),
            host=LOOPBACK,
            port=port,
            status_port=status_port,
        )

    def _proxy(self) -> FaultProxy:
        proxy = FaultProxy(self.plane.port, scheme=self.plane.scheme)
        return self._stack.enter_context(proxy)

    def _port(self) -> int:
        held = Reservation()
        self._stack.callback(held.release)
        return held.port

    def _process(self, name: str, arguments: Sequence[str]) -> Process:
        log = self.plane.folder / f"{name}.log"
        process = Process(arguments, log=log, guardian=self.plane.guardian)
        self._stack.callback(process.end, signal.SIGKILL)
        return process


class ProcessBackend:
    """On this machine, with an API server of the cluster's kind."""

    def __init__(self, cluster: Cluster) -> None:
        self.title = cluster.title
        self._cluster = cluster

    @contextmanager
    def open(self) -> Iterator[Environment]:
        with self._cluster.make() as plane, ExitStack() as stack:
            yield ProcessPlace(plane, stack)
