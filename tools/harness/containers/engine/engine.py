"""Docker's engine: the one that runs, or else one of our own, for as long as anybody uses it.

Used is what DOCKER_HOST names, then what answers at the usual socket. Where neither is, `dockerd`
is started with socket, state and images below the cache folder, so that images stay for the next
time. Several runs at the same time share it; with the last that leaves it ends, however that was
(keeper.py).
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import TextIOWrapper
from pathlib import Path

import docker

from tools.harness.containers.engine.guard import address, alone, answering, is_kept, is_unused

ROOT = Path(__file__).parents[4]
USUAL_SOCKET = Path("/var/run/docker.sock")
# Seconds until dockerd answers: 3 on a quiet machine, with the images' graph to be read.
START_TIMEOUT = 120.0
INTERVAL = 0.1


class NoEngine(Exception):
    """No engine runs, and none can be started; the message says what to do."""


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """A client of an engine that answers until the end of the block. Raises NoEngine."""
    found = _running()
    if found is not None:
        with closing(found):
            yield found
        return
    home = _home()
    home.mkdir(parents=True, exist_ok=True)
    with (home / "users").open("w", encoding="ascii") as users:
        with alone(home):
            fcntl.flock(users, fcntl.LOCK_SH)
            client = answering(address(home)) or _start(home)
        try:
            with closing(client):
                yield client
        finally:
            _leave(home, users)


def engine_address() -> str:
    """Of the engine that `engine` uses now, as DOCKER_HOST has it."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    usual = f"unix://{USUAL_SOCKET}"
    found = answering(usual) if USUAL_SOCKET.exists() else None
    if found is None:
        return address(_home())
    found.close()
    return usual


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "edge-sidecars" / "docker"


def _running() -> docker.DockerClient | None:
    named = os.environ.get("DOCKER_HOST")
    if named:
        client = answering(named)
        if client is None:
            raise NoEngine(f"no engine answers at DOCKER_HOST={named}")
        return client
    return answering(f"unix://{USUAL_SOCKET}") if USUAL_SOCKET.exists() else None


def _start(home: Path) -> docker.DockerClient:
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None or os.geteuid() != 0:
        if program is None:
            raise NoEngine("dockerd is missing: apt-get install docker.io, or name a DOCKER_HOST")
        raise NoEngine(
            "no Docker engine answers, and only root may start dockerd: start one, or name a "
            "DOCKER_HOST"
        )
    log = home / "dockerd.log"
    with log.open("wb") as output, Path(os.devnull).open("rb") as nothing:
        # Not subprocess: it may outlive us, for another run. A session of its own: Ctrl-C at the
        # terminal is for the tests, which end in order.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "tools.harness.containers.engine.guard", str(home), program],
            {**os.environ, "PYTHONPATH": str(ROOT)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setsid=True,
        )
    (home / "keeper").write_text(f"{pid}\n", encoding="ascii")
    deadline = time.monotonic() + START_TIMEOUT
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        client = answering(address(home))
        if client is not None:
            return client
        time.sleep(INTERVAL)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    raise NoEngine("dockerd did not start:\n" + "\n".join(lines))


def _leave(home: Path, users: TextIOWrapper) -> None:
    """Returns when others use it, or it is gone."""
    fcntl.flock(users, fcntl.LOCK_UN)
    while is_kept(home):
        time.sleep(INTERVAL)
        with alone(home):
            if not is_unused(users):
                return
