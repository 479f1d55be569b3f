"""A pod's own network: loopback, and one port there that leads to a port of this machine.

Guarantees: the ports that manifests name are free in it, whatever else this machine runs; nothing
else can be reached from it; it ends with its last user. Needs root.
"""

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Self

from tools.harness.controlplane.reservation import LOOPBACK

# linux/sched.h, linux/sockios.h, net/if.h.
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
_CHUNK = 65536
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Sockets, threads and processes that this thread makes meanwhile are of the network namespace
    of this descriptor."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _call("setns", namespace, CLONE_NEWNET)
        yield
    finally:
        _call("setns", before, CLONE_NEWNET)
        os.close(before)


class PodNetwork:
    """`port` of its loopback leads to `target` of this machine's."""

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._fd = _in_thread(_new_namespace)
        with self.entered():
            self._listener = socket.create_server((LOOPBACK, port))
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        for each in list(self._sockets):
            _end(each)
        os.close(self._fd)

    @property
    def prefix(self) -> list[str]:
        """A command that becomes the program, in this network."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._fd}"]

    def entered(self) -> AbstractContextManager[None]:
        """Sockets that this thread makes meanwhile are of the pod."""
        return entered(self._fd)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((LOOPBACK, self._target))
            except OSError:
                near.close()
                continue
            self._sockets += [near, far]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=pair, daemon=True).start()


def _new_namespace() -> int:
    """Its descriptor, which keeps it."""
    _call("unshare", CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        fcntl.ioctl(it, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _in_thread(function: Callable[[], int]) -> int:
    """In one of its own, which is no longer of this machine's network afterwards."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    _end(source)
    _end(sink)


def _end(it: socket.socket) -> None:
    """Also wakes up who waits for it."""
    with suppress(OSError):
        it.shutdown(socket.SHUT_RDWR)
    it.close()
