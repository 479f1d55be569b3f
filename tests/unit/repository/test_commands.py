"""What the documents say to type is typed by a test, and names nothing that is not there."""

import dataclasses
import re
from collections.abc import Iterator

import pytest

from elector_sidecar.config.config import parser as elector
from gm.config.config import parser as gm
from lc.config import SEDNA_TWINS
from lc.config.config import parser as lc
from pool_sidecar.config.controller_config import parser as controller
from pool_sidecar.config.member_config import parser as pool
from relay_sidecar.config.config import parser as relay
from tests.unit.repository.checkout import DOCUMENTS, TYPED, document, fences, tracked_texts
from tools.bench.runner import Options as BenchOptions

PROGRAMS = {
    "ELECTOR": elector(),
    "RELAY": relay(),
    "POOL": pool(),
    "POOL_CONTROLLER": controller(),
    "GM": gm(),
    "LC": lc(),
}
# Sub-commands, benchmarks, demo and ordeals: flags stand in them in so many words.
COMMANDS = re.compile(
    r"((_command|check|__main__|fault_proxy/process|commands/(ctl/)?\w+)\.py|cni/command\.go)$"
)
# Of kubectl, curl and keepalived, each of which some document names.
FOREIGN = {
    *("--container", "--namespace", "--server-side", "--force-conflicts", "--replicas", "--for"),
    *("--selector", "--all-namespaces", "--cascade", "--timeout", "--field-selector"),
    *("--cert", "--key", "--from-file", "--watch"),
    # etcdutl's.
    *("--bump-revision", "--mark-compacted"),
    *("--fail", "--config-test", "--patch-file"),
    # Of 0.2.0, which the changelog names.
    "--origin",
    # Of unshare.
    *("--map-root-user", "--net"),
    # Of kubelet.
    *("--bootstrap-kubeconfig", "--config-dir"),
    # Of Helm.
    *("--create-namespace", "--set", "--set-string"),
    # Of kind, kubectl, Docker, skopeo, sha256sum and cosign.
    *("--clusterrole", "--serviceaccount", "--labels", "--image", "--input", "--watch"),
    *(
        "--type",
        "--quiet",
        "--bundle",
        "--new-bundle-format",
        "--certificate-identity-regexp",
        "--certificate-oidc-issuer",
    ),
    # Of kube-apiserver.
    *("--feature-gates", "--runtime-config"),
}
LANGUAGES = {"sh", "console", "yaml", "python", ""}
# Of workers and of wrapped programs, not of ours.
SEDNAS = {
    *("LC_SERVER", "ELECTOR_FENCING_TOKEN"),
    *(twin for twins in SEDNA_TWINS.values() for twin in twins.split()),
}


def _typed() -> Iterator[tuple[str, str]]:
    """Where there are commands; those of make are targets, which another test looks at."""
    for name in DOCUMENTS:
        for title, language, text in fences(name):
            lines = [line for line in text.splitlines() if line and not line.startswith("#")]
            if language == "sh" and not all(line.startswith("make ") for line in lines):
                yield name, title


def test_all_commands_to_be_typed_are_typed_by_a_test_that_names_their_heading() -> None:
    assert set(_typed()) == set(TYPED)
    for (_, title), test in TYPED.items():
        assert f'"{title}"' in document(test), (test, title)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_block_says_what_it_is(name: str) -> None:
    assert {language for _, language, _ in fences(name)} <= LANGUAGES


def _flags() -> set[str]:
    options = {name for parser in PROGRAMS.values() for name in parser._option_string_actions}
    for path, text in tracked_texts():
        if COMMANDS.search(path):
            options |= set(re.findall(r'"(--[a-z][a-z-]+)"', text))
            # Of Go's package flag.
            options |= {f"--{name}" for name in re.findall(r'flags\.\w+\("([a-z-]+)"', text)}
    # Of the benchmarks' runner.
    options |= {"--only", "--out", *(f"--{it.name}" for it in dataclasses.fields(BenchOptions))}
    return options


def test_every_flag_that_is_named_exists() -> None:
    text = "\n".join(map(document, DOCUMENTS))
    named = set(re.findall(r"(?<![\w#-])--[a-z][a-z-]+", text))
    known = _flags()
    assert len(known) > 80
    assert named - known - FOREIGN == set()
    assert named >= FOREIGN


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_variable_that_is_named_is_a_flags_twin(program: str) -> None:
    options = PROGRAMS[program]._option_string_actions
    twins = {f"{program}_{name[2:].replace('-', '_').upper()}" for name in options}
    text = "\n".join(map(document, DOCUMENTS))
    named = set(re.findall(rf"(?<![\w$]){program}_[A-Z_]*[A-Z]\b", text))
    others = {it for it in PROGRAMS if it.startswith(f"{program}_")}
    named = {it for it in named if not it.startswith(tuple(f"{other}_" for other in others))}
    assert named - SEDNAS <= twins
