"""A fault proxy as a process of its own, controlled over HTTP on loopback.

    python -m tools.harness.controlplane.fault_proxy.process --target 127.0.0.1:6443 \\
        --control-port 9000
    curl -X PUT localhost:9000/fault -d '{"mode": "black_hole"}'
    curl -X PUT localhost:9000/fault -d '{"response_delay": {"seconds": 2, "jitter": 0.5}}'
    curl localhost:9000/fault; curl localhost:9000/traffic

Guarantees: the first line of its output is JSON with the ports; an answer to PUT means that the
fault is in force; an unknown field or value is a 400 that names it. Ends with SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tools.harness.controlplane.fault_proxy.fault import Delay, Fault, Mode
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.reservation import LOOPBACK


def parse_fault(content: bytes) -> Fault:
    """The fault of a JSON object with the fields of Fault. Raises ValueError."""
    fields = json.loads(content)
    if not isinstance(fields, dict):
        raise ValueError(f"not a JSON object: {fields!r}")
    try:
        if "mode" in fields:
            fields["mode"] = Mode(fields["mode"])
        for name in ("request_delay", "response_delay"):
            if name in fields:
                fields[name] = Delay(**fields[name])
        return Fault(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from error


class _ControlServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, proxy: FaultProxy) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.proxy = proxy


class _Handler(BaseHTTPRequestHandler):
    server: _ControlServer

    def do_GET(self) -> None:
        if self.path == "/fault":
            self._answer(HTTPStatus.OK, _fault_json(self.server.proxy.fault()))
        elif self.path == "/traffic":
            self._answer(HTTPStatus.OK, dataclasses.asdict(self.server.proxy.traffic()))
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"message": f"no {self.path}"})

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/fault":
            self._answer(HTTPStatus.NOT_FOUND, {"message": f"no {self.path}"})
            return
        try:
            fault = parse_fault(content)
        except ValueError as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"message": str(error)})
            return
        self.server.proxy.apply(fault)
        self._answer(HTTPStatus.OK, _fault_json(fault))

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the output belongs to the line with the ports."""

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _fault_json(fault: Fault) -> dict[str, Any]:
    return dataclasses.asdict(fault) | {"mode": fault.mode.value}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", required=True, metavar="HOST:PORT", help="the server")
    parser.add_argument("--port", type=int, default=0, help="where clients connect (0: any)")
    parser.add_argument("--control-port", type=int, default=0, help="for PUT /fault (0: any)")
    arguments = parser.parse_args()
    host, separator, port = arguments.target.rpartition(":")
    if not separator or not port.isdecimal():
        parser.error(f"--target {arguments.target!r} is not HOST:PORT")
    # Blocked before the threads start, so that they inherit it and sigwait gets the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with FaultProxy(int(port), target_host=host, port=arguments.port) as proxy:
        control = _ControlServer(arguments.control_port, proxy)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        ports = {"port": proxy.port, "control_port": control.server_address[1]}
        print(json.dumps(ports), flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
        control.shutdown()
        control.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
