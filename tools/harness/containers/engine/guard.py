"""Runs dockerd for as long as somebody uses it.

`python -m tools.harness.containers.engine.guard FOLDER DOCKERD`.

Owns the process, and the lock by which users say that they are there: shared, on FOLDER/users, and
let go by the kernel however they end. Guarantees: once nobody uses it, containers and networks of
tests are removed and dockerd has ended; until then nobody new begins, who holds FOLDER/starting.
"""

import fcntl
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from tools.harness.containers.engine.lab import LABEL, remove

# Seconds for any answer; a build's next line can take the longest.
ANSWER_TIMEOUT = 300
# Seconds that dockerd has for its end, with no container left.
STOP_TIMEOUT = 30.0
INTERVAL = 0.2


def answering(host: str) -> docker.DockerClient | None:
    """A client of the engine there, if it answers."""
    try:
        scheme, _, path = host.partition("://")
        if scheme == "unix":
            # The SDK does not close a socket that it could not connect.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
        # It asks for the version at once.
        return docker.DockerClient(base_url=host, timeout=ANSWER_TIMEOUT)
    except (DockerException, OSError):
        return None


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Nobody begins or ends meanwhile."""
    with (home / "starting").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_unused(users: TextIOWrapper) -> bool:
    """Asked by somebody who is alone, and holds no lock afterwards."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(users, fcntl.LOCK_UN)
    return True


def address(home: Path) -> str:
    return f"unix://{home / 'socket'}"


def is_kept(home: Path) -> bool:
    """False also of a keeper that has ended and that nobody has waited for yet."""
    try:
        pid = int((home / "keeper").read_text(encoding="ascii"))
        return f"{__name__}\0{home}\0".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def _command(home: Path, program: str) -> list[str]:
    return [
        program,
        f"--host={address(home)}",
        f"--data-root={home / 'data'}",
        f"--exec-root={home / 'run'}",
        f"--pidfile={home / 'pid'}",
        # Tests make the networks that they need. Without these two nothing of it stays in the
        # machine's network, and whatever else goes through that machine goes on doing so.
        "--bridge=none",
        "--ip-forward=false",
        "--default-address-pool=base=198.18.0.0/16,size=24",
    ]


def _end(home: Path, dockerd: "subprocess.Popen[bytes]") -> None:
    client = answering(address(home))
    if client is not None:
        try:
            # Of runs that were killed: others have done it themselves.
            remove(client, LABEL)
        except (DockerException, RequestException) as error:
            print(f"keeper: something stays: {error}", flush=True)
        finally:
            client.close()
    dockerd.terminate()
    try:
        dockerd.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        dockerd.kill()
        dockerd.wait()


def main(folder: str, program: str) -> int:
    # Nothing may end a keeper before its work is done.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    home = Path(folder)
    # Of one that was killed; dockerd would take whoever has that number now for itself.
    (home / "pid").unlink(missing_ok=True)
    dockerd = subprocess.Popen(_command(home, program), start_new_session=True)
    with (home / "users").open("w", encoding="ascii") as users:
        while dockerd.poll() is None:
            time.sleep(INTERVAL)
            with alone(home):
                if is_unused(users):
                    _end(home, dockerd)
    return 0 if dockerd.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
