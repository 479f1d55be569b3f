"""libfaketime (Debian's package `faketime`), which fakes the clocks of one process."""

import os
from pathlib import Path

import pytest

# Debian's multiarch folder, and where `make install` of libfaketime puts it.
FOLDERS = (Path("/usr/lib"), Path("/usr/local/lib"))
LIBRARY = "faketime/libfaketimeMT.so.1"


def faketime_library() -> str:
    """For LD_PRELOAD; skips the test where it is missing, and fails it in CI."""
    for folder in FOLDERS:
        for found in (folder / LIBRARY, *sorted(folder.glob(f"*/{LIBRARY}"))):
            if found.exists():
                return str(found)
    message = "libfaketime is missing: apt-get install faketime"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(message)
    pytest.skip(message)
