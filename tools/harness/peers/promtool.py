"""promtool, which judges alert rules: the one in PATH, or else Debian's.

Guarantees: nothing is installed and no service started; it is fetched once for all checkouts, into
the cache folder. Runs as `python3 -m tools.harness.peers.promtool` and prints the path; ends well
also where none is to be had: its tests then skip, or in CI fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.harness.controlplane.fixtures import lack

# Of every suite of Debian and Ubuntu.
PACKAGE = "prometheus"
PROGRAM = "usr/bin/promtool"


def require_promtool() -> str:
    """Its path; skips, or in CI fails, where there is none."""
    found = find()
    if found is None:
        lack(
            "promtool is missing: run python3 -m tools.harness.peers.promtool,"
            " or install Prometheus"
        )
    return found


def find() -> str | None:
    return shutil.which("promtool") or (str(_cached()) if _cached().exists() else None)


def fetch() -> str:
    """Its path; fetched where it is missing. Raises OSError, subprocess.CalledProcessError."""
    found = find()
    if found is not None:
        return found
    cached = _cached()
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cached.parent) as folder:
        # apt-get fetches as somebody else, who is to write here.
        Path(folder).chmod(0o777)
        download = ["apt-get", "download", "-qq", PACKAGE]
        try:
            _run(download, folder)
        except subprocess.CalledProcessError:
            if os.geteuid() != 0:
                raise
            # A bare machine has no lists of packages.
            _run(["apt-get", "update", "-qq"], folder)
            _run(download, folder)
        (package,) = Path(folder).glob("*.deb")
        _run(["dpkg-deb", "--extract", str(package), "unpacked"], folder)
        Path(folder, "unpacked", PROGRAM).rename(cached)
    return str(cached)


def _cached() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "edge-sidecars" / "bin" / "promtool-debian" / "promtool"


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True, check=True)


def main() -> int:
    try:
        print(fetch())
    except OSError as error:
        print(f"promtool: {error}: its tests do not run", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"promtool: {error.stderr.strip()}: its tests do not run", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
