"""A container that is ended while it starts ends, though its process is the first one in it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
FIRST_IN_ITS_SPACE = [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
]
# Seconds between two signals, and until the process must have heard one on a busy machine.
INTERVAL = 0.005
TIMEOUT = 30.0
# Seconds between two signals in which a program may have begun: this machine stood still.
STANDSTILL = 0.05


@pytest.mark.parametrize(
    "program", ["elector-sidecar", "relay-sidecar", "pool-sidecar", "sedna-gm", "sedna-lc"]
)
def test_the_first_process_of_a_container_ends_by_a_signal_before_it_has_begun(
    program: str,
) -> None:
    until = time.monotonic() + TIMEOUT
    # Had it begun, it would say what is wrong with the flag, and exit with 2.
    while (ended := signalled(program, until=until))[:2] != (0, b""):
        assert ended[2] > STANDSTILL, ended
        assert time.monotonic() < until, ended


# As after `pip install '.[kubeconfig]'`, which installs every command.
OF_EXTRAS = ("google", "grpc", "kubernetes", "minio", "msgspec", "uvloop")


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("elector_sidecar", "", None),
        ("relay_sidecar", "", "relay"),
        ("relay_sidecar", "kubeconfig", None),
        ("relay_sidecar", "status", None),
        ("pool_sidecar", "status", None),
        ("gm", "", "gm"),
        ("gm", "status", None),
        ("lc", "", "lc"),
        ("lc", "status", None),
    ],
)
def test_a_program_without_its_extra_names_it_in_one_line(
    package: str, command: str, extra: str | None
) -> None:
    """`extra`: None where the command works without one."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OF_EXTRAS}))\n"
        f"sys.argv = [{package!r}, *{command.split()}]\n"
        f"from {package}.__main__ import main; main()"
    )
    environ = {"KUBERNETES_SERVICE_HOST": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environ
    )
    assert "Traceback" not in done.stderr
    if extra is not None:
        assert done.returncode != 0
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"pip install '.[{extra}]'" in done.stderr
    else:
        assert "extra" not in done.stderr


def signalled(program: str, *, until: float) -> tuple[int, bytes, float]:
    """Exit status and words of a program that is sent one signal after the other, and the longest
    time between two of them, seconds."""
    command = [*FIRST_IN_ITS_SPACE, str(BIN / program), "--no-such-flag"]
    outer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    last, longest = time.monotonic(), 0.0
    while outer.poll() is None:
        assert last < until
        for pid in children(outer.pid):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGTERM)
        time.sleep(INTERVAL)
        now = time.monotonic()
        last, longest = now, max(longest, now - last)
    said, _ = outer.communicate()
    return outer.returncode, said, longest


def children(pid: int) -> list[int]:
    try:
        return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.parametrize(
    "program", ["elector_sidecar", "relay_sidecar", "pool_sidecar", "gm", "lc"]
)
def test_nothing_is_read_at_a_start_that_nobody_needs(program: str) -> None:
    code = "\n".join(
        [
            "import os, sys",
            f"sys.argv = [{program!r}, '--no-such-flag']",
            f"from {program}.__main__ import main",
            "places = lambda: {k: v for k, v in os.environ.items() if k.startswith('SSL_')}",
            "before = places()",
            "try:",
            "    main()",
            "except SystemExit:",
            "    pass",
            "from aiohttp import connector",
            "assert places() == before",
            "print(connector._SSL_CONTEXT_VERIFIED.cert_store_stats()['x509'])",
            "print('aiohttp.web' in sys.modules)",
        ]
    )
    said = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert said.stdout.split() == ["0", "False"]
