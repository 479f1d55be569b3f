"""What the programs ask of the C library and the kernel, each in a process of its own."""

import platform
import subprocess
import sys

import pytest

_MEBIBYTE = 1024 * 1024
_LISTS_COME_AND_GO = """
import resource, sys
from edge_sidecars.runtime.process import set_malloc_thresholds

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

if sys.argv[1] == "give-back":
    set_malloc_thresholds()
before = resident()
for mebibytes in (24, 20, 16, 12, 8, 4):
    block = b"x" * (mebibytes * 1024 * 1024)
    del block
print(resident() - before)
"""


def _kept(how: str) -> int:
    """Bytes that a process still holds after large blocks came and went."""
    out = subprocess.run(
        [sys.executable, "-c", _LISTS_COME_AND_GO, how], capture_output=True, text=True, check=True
    )
    return int(out.stdout)


def test_large_blocks_go_back_to_the_system_when_they_are_free() -> None:
    assert _kept("give-back") < _MEBIBYTE


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library does otherwise")
def test_the_c_library_would_keep_them() -> None:
    """Else the call is needed no longer."""
    assert _kept("leave-it") > 8 * _MEBIBYTE
