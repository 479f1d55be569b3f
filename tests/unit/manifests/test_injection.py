"""The policies of manifests/injection are taken by the oldest API servers that they are for, and
take the values that the programs take."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_sidecars.runtime.cli.options import declared, flag
from edge_sidecars.runtime.cli.values import BadInput
from elector_sidecar.config.config import Config as ElectorConfig
from relay_sidecar.config.config import Config as RelayConfig
from tests.unit.manifests.built import MANIFESTS

# CEL's lists library, version 3: an API server takes in new objects what the release before knew,
# so these are for Kubernetes 1.35 and later (apiserver/pkg/cel/environment/base.go).
TOO_NEW = ("distinct", "first", "flatten", "last", "range", "reverse", "slice", "sort", "sortBy")


@pytest.mark.parametrize(
    "path", sorted((MANIFESTS / "injection/policies").glob("*.yaml")), ids=lambda it: it.name
)
def test_a_policy_uses_no_function_that_1_34_lacks(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(rf"\b(?:{'|'.join(TOO_NEW)})\(", text) == []


PROGRAMS: dict[str, type] = {"elector": ElectorConfig, "relay": RelayConfig}
# Of every kind that a flag has, good and bad.
VALUES = (
    *("0", "1", "2", "3", "64", "256", "257", "1000", "0003", "1000000", "1000001", "9" * 21),
    *("1s", "0s", "1.5s", "3h30", "3h30m", "1m30s", "500ms", "1m30", "7d", "1d12h", "1e3", "-1"),
    *("nan", "inf", "1w", "999999999999s", "99999999d", "x"),
    *("true", "FALSE", "On", "off", "yes", "NO", "maybe", "text", "json", "JSON", "debug", "WARN"),
    *("wait", "take", "cache", "upstream", "http://h", "http://h:80/x", "https://h?x", "HTTP://h"),
    *("ftp://h", "http://", "http:///x", "h:80", "http://h:99999", "http://h:0", "http://[::1]:1"),
    *("http://u:p@h/x", ":80", ":0", "127.0.0.1:4040", "h:99999", "h:65535", "h:65536", "[::1]:80"),
    *("::1:80", "unix:/x", "unix:x", "0660", "660", "0o660", "1777", "0777", "888", "00660", "0_6"),
    *("4Mi", "4M", "4k", "4K", "4Ki", "128Mi", "1Gi", "1Ti", "1.5Mi"),
)


def _policies(file: str) -> dict[str, dict[str, str]]:
    """By name, the variables of each."""
    documents = yaml.safe_load_all((MANIFESTS / "injection/policies" / file).read_text())
    return {
        it["metadata"]["name"].removesuffix(".edge-sidecars.io"): {
            each["name"]: each["expression"] for each in it["spec"]["variables"]
        }
        for it in documents
        if it["kind"] == "ValidatingAdmissionPolicy"
    }


def _literal(expression: str) -> Any:
    """CEL's lists of texts are Python's."""
    return ast.literal_eval(re.sub(r"'\s*\+ '", "", expression))


def _patterns(program: str) -> Iterator[tuple[str, str]]:
    for flags, pattern, _ in _literal(_policies("refusals.yaml")[program]["kinds"]):
        for name in flags.split():
            yield name, pattern


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_value_is_admitted_if_the_program_takes_it(program: str) -> None:
    options = {flag(it.name): it for _, it in declared(PROGRAMS[program])}
    patterns = dict(_patterns(program))
    known = _literal(_policies("refusals.yaml")[program]["known"])
    assert set(known) - {"--preload"} == patterns.keys()
    for name, pattern in patterns.items():
        for value in VALUES:
            assert _matches(pattern, value) == _is_taken(options[name].parse, value), (name, value)


def _matches(pattern: str, value: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "[[" is no set of RE2's either
        return re.search(pattern, value, re.ASCII) is not None


def _is_taken(parse: Any, value: str) -> bool:
    try:
        parse(value)
    except BadInput:
        return False
    return True


def test_a_configmap_is_warned_of_keys_that_no_annotation_has() -> None:
    """But for the switch that the policy sets itself."""
    text = _policies("near-misses.yaml")["near-misses-of-flags"]["known"]
    of_both = re.findall(r"'([A-Z_]+)'", text)
    expected = ["RESOURCES"]
    for program in PROGRAMS:
        known = _literal(_policies("refusals.yaml")[program]["known"])
        names = [it.removeprefix("--").replace("-", "_").upper() for it in known]
        expected += [it for it in names if it != "RELEASE_ON_TERM"]
    assert of_both == expected
