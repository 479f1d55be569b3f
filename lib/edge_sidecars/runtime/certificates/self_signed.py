"""A new self-signed certificate, made by a process of its own: see `maker`."""

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput

BEGIN_KEY: Final = "-----BEGIN PRIVATE KEY-----"


def self_signed(common_name: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """The certificate and its key, in PEM; `names`: of a TLS server. Raises `BadInput`."""
    # An image's program has shown its interpreter where the packages are; another one learns it
    # here, and not to look into the working directory first.
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    maker = (sys.executable, "-P", "-m", "edge_sidecars.runtime.certificates.maker")
    made = subprocess.run(
        [*maker, common_name, *names],
        capture_output=True,
        encoding="ascii",
        check=False,
        env=environ,
    )
    if made.returncode:
        reason = made.stderr.strip().rpartition("\n")[2] or f"exit status {made.returncode}"
        raise BadInput(f"no key can be made: {reason}; it needs the package cryptography")
    certificate, begin, key = made.stdout.partition(BEGIN_KEY)
    return certificate, begin + key
