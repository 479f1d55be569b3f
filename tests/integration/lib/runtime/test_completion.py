"""`<program> completion`: what a real bash offers, for each console script."""

import re
import subprocess

import pytest

from tools.harness.pods.command import run_program

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


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_offers_the_sub_commands_and_the_flags_of_each(program: str) -> None:
    function = "_" + program.replace("-", "_")
    script = _printed(program, "bash")
    for typed, offered in PROGRAMS[program]:
        ask = f"COMP_WORDS=({program} {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"
        done = subprocess.run(
            ["bash", "-euc", f"{script}\n{ask}\n{function}\necho ${{COMPREPLY[@]}}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert set(done.stdout.split()) == offered, typed


def test_zsh_reads_the_script_of_bash_and_fish_a_line_for_each_flag() -> None:
    zsh = "autoload -U +X bashcompinit && bashcompinit\n"
    assert _printed("elector-sidecar", "zsh") == zsh + _printed("elector-sidecar", "bash")
    line = re.compile(r"complete -c elector-sidecar -n '[^']+' (-l [a-z-]+|-f -a '[a-z ]+')")
    lines = _printed("elector-sidecar", "fish").splitlines()
    assert all(map(line.fullmatch, lines))
    ours = [it for it in lines if "from check'" in it and "not " not in it]
    assert [it.split()[-1] for it in ours] == ["min-age", "min-remaining", "timeout", "url"]


def test_a_shell_that_is_none_is_refused() -> None:
    done = run_program("elector-sidecar", "completion", "csh", environ={})
    assert done.returncode == 2
    assert "'csh' is no shell: choose one of bash, zsh, fish" in done.stderr
    assert done.stderr.count("\n") == 1
