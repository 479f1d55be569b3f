"""`<program> completion bash|zsh|fish`: a script for the user's shell, made of the program's helps.

The shell asks nothing of the program when a key is pressed, and the program needs no package for
it. What the script offers is what each sub-command's help names.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")
BAD_INPUT = 2
# Seconds for one help, on a busy machine.
TIMEOUT = 60.0
_USAGE = """usage: {program} completion bash|zsh|fish

Prints the completion of {program} for a shell, to be read where it starts.

Example:
  {program} completion bash > ~/.local/share/bash-completion/completions/{program}
"""
# zsh reads the script of bash. `compinit` is not run by default; -i: without a question.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
autoload -U +X bashcompinit && bashcompinit
"""
# By path, like "node install": its flags and its sub-commands.
Words = Mapping[str, tuple[list[str], list[str]]]


def completion(arguments: Sequence[str], *, program: str, commands: Sequence[str]) -> int:
    """The exit status. `commands`: the sub-commands of the program."""
    if [*arguments] in (["-h"], ["--help"]):
        sys.stdout.write(_USAGE.format(program=program))
        return 0
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        given = " ".join(arguments)
        sys.stderr.write(
            f"{program} completion: {given!r:.80} is no shell: choose one of {', '.join(SHELLS)}\n"
        )
        return BAD_INPUT
    words = _words(commands)
    make = _fish if arguments[0] == "fish" else _bash
    sys.stdout.write((_ZSH if arguments[0] == "zsh" else "") + make(program, words))
    return 0


def _words(commands: Sequence[str]) -> Words:
    words = {"": (flags_of(_help([])), [*commands, "completion"])}
    words["completion"] = ([], list(SHELLS))
    for command in commands:
        text = _help([command])
        nested = commands_of(text)
        words[command] = (flags_of(text), nested)
        for each in nested:
            words[f"{command} {each}"] = (flags_of(_help([command, each])), [])
    return words


def _help(path: Sequence[str]) -> str:
    """ "" where the help cannot be had: a sub-command whose extra is not installed."""
    done = subprocess.run(
        [sys.executable, sys.argv[0], *path, "--help"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return done.stdout


def flags_of(text: str) -> list[str]:
    """Those that a help explains, or that its usage has."""
    lines = re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE)
    usage = re.findall(r"\[(--[a-z-]+)", text.partition("\n\n")[0])
    explained = (it for line in lines for it in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line))
    return sorted({*explained, *usage})


def commands_of(text: str) -> list[str]:
    """The sub-commands that a help lists."""
    _, _, listed = text.partition("\ncommands:\n")
    return re.findall(r"^    ([a-z][a-z-]*)\b", listed.partition("\n\n")[0], re.MULTILINE)


def _bash(program: str, words: Words) -> str:
    name = "_" + program.replace("-", "_")
    paths = {path: "".join(f"/{each}" for each in path.split()) for path in words}
    known = "|".join(filter(None, paths.values()))
    cases = "\n".join(
        f'    "{paths[path]}") words="{" ".join([*commands, *flags])}" ;;'
        for path, (flags, commands) in words.items()
    )
    return f"""\
{name}() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" path="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path/${{COMP_WORDS[i]}}" in
      {known}) path="$path/${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F {name} {program}
"""


def _fish(program: str, words: Words) -> str:
    lines: list[str] = []
    for path, (flags, commands) in words.items():
        seen = [f"__fish_seen_subcommand_from {each}" for each in path.split()]
        below = f"not __fish_seen_subcommand_from {' '.join(commands)}" if commands else ""
        condition = "; and ".join(filter(None, [*seen, below])) or "true"
        lines += _fish_lines(program, condition, flags, commands)
    return "\n".join(lines) + "\n"


def _fish_lines(
    program: str, condition: str, flags: Iterable[str], commands: Sequence[str]
) -> list[str]:
    start = f"complete -c {program} -n '{condition}'"
    options = [f"{start} -l {it.removeprefix('--')}" for it in flags]
    return [*([f"{start} -f -a '{' '.join(commands)}'"] if commands else []), *options]
