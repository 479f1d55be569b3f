"""`<program> completion`: what real shells offer, for each console script."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tools.harness.controlplane.fixtures import lack
from tools.harness.processes.command import run_program

PROGRAMS = {
    "elector-sidecar": [
        ("st", {"status"}),
        ("check --min-", {"--min-age", "--min-remaining"}),
        ("--lease-", {"--lease-duration", "--lease-file"}),
        ("rbac --leader", {"--leader-label"}),
    ],
    "relay-sidecar": [
        ("node in", {"install"}),
        ("node install --ku", {"--kubelet-kubeconfig"}),
        ("kubeconfig --acc", {"--access"}),
        ("status --u", {"--url"}),
    ],
    "pool-sidecar": [("contr", {"controller"}), ("controller --max", {"--max-dead"})],
    "sedna-gm": [("liv", {"livez"}), ("--mo", {"--mode"})],
    "sedna-lc": [("livez --t", {"--timeout"}), ("completion z", {"zsh"})],
}


def _printed(program: str, shell: str) -> str:
    done = run_program(program, "completion", shell, environ={})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _bash(program: str, typed: str, script: Path) -> set[str]:
    function = "_" + program.replace("-", "_")
    ask = f"COMP_WORDS=({program} {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"
    return _words("bash", "-euc", f"source {script}\n{ask}\n{function}\necho ${{COMPREPLY[@]}}")


def _fish(program: str, typed: str, script: Path) -> set[str]:
    asked = f"source {script}; complete -C '{program} {typed}'"
    return _words("fish", "--no-config", "-c", asked)


def _words(*command: str) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def _zsh(program: str, typed: str, script: Path) -> set[str]:
    """Of a shell without any configuration, by the key that lists the choices."""
    home = {"HOME": str(script.parent), "PATH": os.environ["PATH"], "TERM": "dumb"}
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=home
    )
    try:
        setup = f"PS1= RPS1=; unsetopt promptsp; source {script}; bindkey '^X' list-choices"
        os.write(ours, f"{setup}; print begun ${{(U):-here}}\n".encode())
        _read(ours, "begun HERE")
        os.write(ours, f"{program} {typed}\x18".encode())
        shown = _read(ours, rf"{re.escape(typed)}\n+(.*?)\n{program} ")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
        os.close(theirs)
    return set(shown.split())


def _read(terminal: int, pattern: str) -> str:
    """What the pattern's group stands for, once all of it is there."""
    text, until = "", time.monotonic() + 20
    while (found := re.search(pattern, text, re.DOTALL)) is None:
        assert time.monotonic() < until, text
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 4096).decode(errors="replace").replace("\r", "")
    return found.group(found.lastindex or 0)


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_shell_offers_the_sub_commands_and_the_flags_of_each(
    program: str, shell: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        lack(f"{shell} is missing: apt-get install {shell}")
    script = tmp_path / "script"
    script.write_text(_printed(program, shell))
    for typed, offered in PROGRAMS[program]:
        assert SHELLS[shell](program, typed, script) == offered, typed


def test_a_shell_that_is_none_is_refused() -> None:
    done = run_program("elector-sidecar", "completion", "csh", environ={})
    assert done.returncode == 2
    assert "'csh' is no shell: choose one of bash, zsh, fish" in done.stderr
    assert done.stderr.count("\n") == 1
