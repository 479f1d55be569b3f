"""A main container as small as it gets: a process that answers 204 to every request.

Guarantee: the port stays the same over restarts and refuses connections as soon as the process
is dead, as a pod's loopback does.
"""

import subprocess
import sys

from tools.harness.controlplane.reservation import Reservation
from tools.harness.processes.child import Child

# Small enough to start in milliseconds: no module but socket.
SOURCE = """
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    connection.settimeout(1)
    try:
        connection.recv(4096)
        connection.send(b"HTTP/1.1 204 No Content\\r\\nConnection: close\\r\\n\\r\\n")
    except OSError:
        pass
    connection.close()
"""


class MainProcess(Child):
    def __init__(self) -> None:
        self._reservation = Reservation()
        self.name = "the main"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._reservation.port}/healthz"

    def start(self) -> int:
        """Its process id; returns when it listens."""
        command = [sys.executable, "-I", "-S", "-c", SOURCE, str(self._reservation.port)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._process = process
        assert process.stdout is not None
        with process.stdout:
            if process.stdout.readline() != b"listening\n":
                raise ChildProcessError(f"the main does not listen at {self.url}")
        return process.pid

    def stop(self) -> None:
        if self.is_running:
            self.kill()
        self._reservation.release()
