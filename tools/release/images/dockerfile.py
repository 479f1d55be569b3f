"""How a container of an image runs: what its stages of a Dockerfile say. **Pure.**

Guarantees: the words that a configuration is made of are all read, and another word is an error, so
that an archive never lacks what an engine would have built in.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_STAGE: Final = re.compile(r"(?P<base>\S+)(?: AS (?P<name>\S+))?")
_CHECK: Final = re.compile(r"((?:--[a-z-]+=\d+s )+)CMD (\[.*\])")
# What the archive's layers are, which are made without the Dockerfile.
_FILES: Final = re.compile(r"--from=(root|build) (/build/root|/app/[a-z]+) (/|/app/[a-z]+)")
_DATA: Final = re.compile(r"--from=build --chown=(\d+):\1 /data (/\S+)")
# Of an image that is no component's: its files, their modes, and its packages, which a lock names.
_COPY: Final = re.compile(r"COPY ((?:\w[\w./-]* )+)(/\S+/)")
_MODES: Final = re.compile(r"RUN (chmod \d+ /\S+( && |$))+")
_PACKAGES: Final = re.compile(r"RUN command -v .* install( -\S+)* [a-z ]+ && rm -rf \S+ }")
_NANOSECONDS: Final = 1_000_000_000


@dataclass
class Image:
    """`config` is that of OCI, with Docker's Healthcheck. `data`: empty folders of `owner`.
    `copied`: files of the checkout, and their folder; `modes`: these of what is copied."""

    config: dict[str, Any] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)
    owner: int = 0
    copied: list[tuple[list[str], str]] = field(default_factory=list)
    modes: list[tuple[str, str]] = field(default_factory=list)


def image_of(component: str, dockerfile: str, variables: Mapping[str, str]) -> Image:
    """Of the stages `app`, the component's own and the last one, which stand upon each other; of
    the only one where `component` is ""."""
    stages = _stages(dockerfile)
    image = Image()
    names = ["app", component, ""] if component else [""]
    for line in (line for name in names for line in stages[name]):
        word, _, rest = line.partition(" ")
        if component or not _is_of_files(image, line):
            _read(image, word, rest, variables)
    return image


def _is_of_files(image: Image, line: str) -> bool:
    """What it says of files is noted."""
    if found := _COPY.fullmatch(line):
        image.copied.append((found[1].split(), found[2]))
    elif _MODES.fullmatch(line):
        image.modes += re.findall(r"chmod (\S+) (\S+)", line)
    else:
        return _PACKAGES.fullmatch(line) is not None
    return True


def _read(image: Image, word: str, rest: str, variables: Mapping[str, str]) -> None:
    config = image.config
    match word:
        case "ENV":
            config.setdefault("Env", []).extend(shlex.split(rest))
        case "LABEL":
            for name, value in variables.items():
                rest = rest.replace(f"${{{name}}}", value)
            labels = dict(it.partition("=")[::2] for it in shlex.split(rest))
            config.setdefault("Labels", {}).update(labels)
        case "USER":
            config["User"] = rest
        case "WORKDIR":
            config["WorkingDir"] = rest
        case "EXPOSE":
            config["ExposedPorts"] = {f"{port}/tcp": {} for port in rest.split()}
        case "ENTRYPOINT":
            config["Entrypoint"] = json.loads(rest)
        case "HEALTHCHECK" if found := _CHECK.fullmatch(rest):
            times = dict(it.removeprefix("--").split("=") for it in found[1].split())
            config["Healthcheck"] = {
                "Test": ["CMD", *json.loads(found[2])],
                **{_camel(name): int(it[:-1]) * _NANOSECONDS for name, it in times.items()},
            }
        case "COPY" if found := _DATA.fullmatch(rest):
            image.owner = int(found[1])
            image.data.append(found[2])
        case "COPY" if _FILES.fullmatch(rest):
            pass
        case "ARG":
            pass
        case _:
            raise ValueError(f"{word} {rest}: not read yet")


def _stages(dockerfile: str) -> dict[str, list[str]]:
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE)
    stages: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM" and (found := _STAGE.fullmatch(rest)):
            lines = stages.setdefault(found["name"] or "", [])
        elif line:
            lines.append(line)
    return stages


def _camel(name: str) -> str:
    return name.title().replace("-", "")
