"""A process that prints one JSON document a line, read while it runs.

Guarantees: what it printed up to now is there; `close` ends it; one that ends by itself is a
failure of whoever asks for its lines.
"""

import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, Self


class Lines:
    def __init__(self, command: Sequence[object]) -> None:
        self._command = [str(word) for word in command]
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        self._has_line = threading.Event()

    def __enter__(self) -> Self:
        """Returns when the first line is there."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self._thread = threading.Thread(target=self._read, name="lines")
        self._thread.start()
        if not self._has_line.wait(30):
            self.close()
            raise AssertionError(f"prints nothing: {self._command}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def so_far(self) -> list[dict[str, Any]]:
        assert self._process.poll() is None, f"has ended: {self._command}"
        with self._lock:
            return list(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # cut off by its end
            with self._lock:
                self._lines.append(json.loads(line))
            self._has_line.set()
