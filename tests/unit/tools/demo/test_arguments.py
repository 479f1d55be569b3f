"""Durations that the sidecar would refuse are refused before anything is built or started."""

import subprocess
import sys

import pytest

from tools.demo.__main__ import main


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--lease-duration", "3s"], "must be under"),
        (["--lease-duration", "soon"], "'soon'"),
        (["--lease-duration", "6s", "--renew-interval", "0s"], "under 1s"),
    ],
)
def test_an_unsafe_duration_is_one_line_with_its_value(
    flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_the_demo_itself_imports_nothing_that_its_lock_file_lacks() -> None:
    """Docker comes with --containers."""
    program = (
        "import sys, tools.demo.__main__; print(*{it.partition('.')[0] for it in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert {"cryptography", "rich"} <= set(done.stdout.split())
    assert {"docker", "grpc", "requests"}.isdisjoint(done.stdout.split())
