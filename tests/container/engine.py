"""Docker's engine: the one that runs, or else one of our own, for as long as anybody uses it.

Used is what DOCKER_HOST names, then what answers at the usual socket. Where neither is, `dockerd`
is started by hand, with socket, state and images below the cache folder, so that images stay for
the next time. Several runs at the same time share it; the last that leaves ends it, by its pid.
Subnets that it chooses by itself are of 198.18.0.0/15, which RFC 2544 keeps for tests.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException

USUAL_SOCKET = Path("/var/run/docker.sock")
# Seconds until dockerd answers: 3 on a quiet machine, with the images' graph to be read.
START_TIMEOUT = 120.0
# Seconds that dockerd has for its containers' end: it gives each of them 10.
STOP_TIMEOUT = 60.0
# Seconds for any answer; a build's next line can take the longest.
ANSWER_TIMEOUT = 300
INTERVAL = 0.1


class NoEngine(Exception):
    """No engine runs, and none can be started; the message says what to do."""


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """A client of an engine that answers until the end of the block. Raises NoEngine."""
    found = _running()
    if found is not None:
        with _closing(found):
            yield found
        return
    home = _home()
    home.mkdir(parents=True, exist_ok=True)
    with (home / "users").open("w", encoding="ascii") as users:
        with _alone(home / "starting"):
            fcntl.flock(users, fcntl.LOCK_SH)
            client = _answering(f"unix://{home / 'socket'}") or _start(home)
        try:
            with _closing(client):
                yield client
        finally:
            with _alone(home / "starting"):
                if _is_last(users):
                    _stop(home)


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "edge-sidecars" / "docker"


def _running() -> docker.DockerClient | None:
    named = os.environ.get("DOCKER_HOST")
    if named:
        client = _answering(named)
        if client is None:
            raise NoEngine(f"no engine answers at DOCKER_HOST={named}")
        return client
    return _answering(f"unix://{USUAL_SOCKET}") if USUAL_SOCKET.exists() else None


def _answering(host: str) -> docker.DockerClient | None:
    try:
        # It asks for the version at once.
        return docker.DockerClient(base_url=host, timeout=ANSWER_TIMEOUT)
    except (DockerException, OSError):
        return None


def _start(home: Path) -> docker.DockerClient:
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None or os.geteuid() != 0:
        why = "no dockerd in PATH" if program is None else "only root may start dockerd"
        raise NoEngine(f"no Docker engine answers, and {why}: start one, or name a DOCKER_HOST")
    log = home / "dockerd.log"
    command = [
        program,
        f"--host=unix://{home / 'socket'}",
        f"--data-root={home / 'data'}",
        f"--exec-root={home / 'run'}",
        f"--pidfile={home / 'pid'}",
        "--bip=198.19.255.1/24",
        "--default-address-pool=base=198.18.0.0/16,size=24",
    ]
    with log.open("wb") as output, Path(os.devnull).open("rb") as nothing:
        # Not subprocess: it may outlive us, for another run. A session of its own: Ctrl-C at the
        # terminal is for the tests, which end it in order.
        pid = os.posix_spawn(
            program,
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setsid=True,
        )
    deadline = time.monotonic() + START_TIMEOUT
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        client = _answering(f"unix://{home / 'socket'}")
        if client is not None:
            return client
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(INTERVAL)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    raise NoEngine("dockerd did not start:\n" + "\n".join(lines))


def _stop(home: Path) -> None:
    try:
        pid = int((home / "pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return
    if not _is_ours(pid, home):
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while time.monotonic() < deadline and _is_ours(pid, home):
        time.sleep(INTERVAL)


def _is_ours(pid: int, home: Path) -> bool:
    """False also of one that has ended and that nobody has waited for yet."""
    try:
        return f"--data-root={home / 'data'}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _is_last(users: object) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
    except BlockingIOError:
        return False
    return True


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _closing(client: docker.DockerClient) -> Iterator[None]:
    try:
        yield
    finally:
        client.close()
