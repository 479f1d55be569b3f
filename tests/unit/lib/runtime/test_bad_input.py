"""Bad input of every program and sub-command: one line with the value and the remedy, status 2.

The first table is made from the declared flags: each with values that its type does not take. The
second one has what only several flags, a file or a variable make wrong.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import elector_sidecar.app
import elector_sidecar.commands.check
import elector_sidecar.commands.rbac
import elector_sidecar.commands.shards
import elector_sidecar.commands.status
import gm.app
import gm.status_command
import lc.app
import lc.status_command
import pool_sidecar.controller_app
import pool_sidecar.member_app
import pool_sidecar.status_command
import relay_sidecar.app
import relay_sidecar.commands.in_cluster
import relay_sidecar.commands.kubeconfig
import relay_sidecar.commands.node
import relay_sidecar.commands.rbac
import relay_sidecar.commands.status
from edge_sidecars.runtime.cli.options import declared, flag
from edge_sidecars.runtime.cli.probe import livez
from elector_sidecar.config.config import Config as ElectorConfig
from gm.config.config import Config as GmConfig
from lc.config.config import Config as LcConfig
from pool_sidecar.config.controller_config import ControllerConfig
from pool_sidecar.config.member_config import MemberConfig
from relay_sidecar.config.config import Config as RelayConfig

Main = Callable[[list[str], Mapping[str, str]], int]
NOWHERE = "http://127.0.0.1:1"
# How a line says what to do.
REMEDY = (
    *("write", "name ", "choose", "drop", "must ", "needs", "add", "use ", "set ", "raise"),
    *("mount", "did you mean", "is for", "--help", "lower-case", "checks it", "no pod"),
)


def _livez(arguments: list[str], environ: Mapping[str, str]) -> int:
    listen = environ.get("X_LISTEN", "")
    default, variable = (listen, "X_LISTEN") if listen else ("127.0.0.1:1", "")
    return livez(arguments, program="x", listen=default, variable=variable)


# By program: its `main`, and arguments that are good but for what is under test.
MAINS: dict[str, tuple[Main, list[str]]] = {
    "elector": (
        elector_sidecar.app.main,
        ["--lease=l", "--namespace=n", f"--server={NOWHERE}", "--listen=127.0.0.1:0"],
    ),
    "elector check": (elector_sidecar.commands.check.main, []),
    "elector rbac": (elector_sidecar.commands.rbac.main, []),
    "elector shards": (elector_sidecar.commands.shards.main, []),
    "elector status": (elector_sidecar.commands.status.main, []),
    "relay": (
        relay_sidecar.app.main,
        [
            *(f"--server={NOWHERE}", "--data-dir=memory"),
            *("--listen=127.0.0.1:0", "--status-listen=127.0.0.1:0"),
        ],
    ),
    "relay in-cluster": (relay_sidecar.commands.in_cluster.main, ["--once"]),
    "relay kubeconfig": (relay_sidecar.commands.kubeconfig.main, []),
    "relay node": (relay_sidecar.commands.node.main, []),
    "relay rbac": (relay_sidecar.commands.rbac.main, []),
    "relay status": (relay_sidecar.commands.status.main, []),
    "pool": (
        pool_sidecar.member_app.main,
        ["--node=n", "--lan-address=127.0.0.1", "--listen=127.0.0.1:0", "--proxy-listen=[::1]:0"],
    ),
    "pool controller": (
        pool_sidecar.controller_app.main,
        [f"--server={NOWHERE}", "--listen=127.0.0.1:0"],
    ),
    "pool status": (pool_sidecar.status_command.main, []),
    "gm": (gm.app.main, ["--listen=127.0.0.1:0", "--stream-listen=127.0.0.1:0"]),
    "gm status": (gm.status_command.main, []),
    "lc": (lc.app.main, ["--gm-address=gm:9000", "--root=/", "--node=n"]),
    "lc status": (lc.status_command.main, []),
    "livez": (_livez, []),
}
CONFIGS: dict[str, type] = {
    "elector": ElectorConfig,
    "relay": RelayConfig,
    "pool": MemberConfig,
    "pool controller": ControllerConfig,
    "gm": GmConfig,
    "lc": LcConfig,
}


@contextmanager
def _patience() -> Iterator[None]:
    """A program that takes bad input runs for ever."""

    def late(*_: object) -> None:
        raise AssertionError("it was taken")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _refusal(
    program: str,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    environ: Mapping[str, str] | None = None,
) -> str:
    main, good = MAINS[program]
    given = {word.partition("=")[0] for word in arguments}
    rest = [word for word in good if word.partition("=")[0] not in given]
    with _patience():
        try:
            status = main([*rest, *arguments], environ or {})
        except SystemExit as error:
            status = int(str(error.code))
    printed = capsys.readouterr()
    assert status == 2, printed.err
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert "Traceback" not in printed.err
    assert "Errno" not in printed.err
    return printed.err.strip()


# ── each flag, by what its value is ──

LISTENER = ("junk", "h:-1", "h:99999", "127.0.0.1", "[::1", "h\n:1")
BAD: dict[str, tuple[str, ...]] = {
    "DURATION": ("soon", "-1s", "nan", "inf", "1e9", "1 s", "1s\n", "99999999999999d"),
    "NUMBER": ("many", "-1", "1.5", "nan", "1e3", "9" * 30, "1\n", "²"),
    "SIZE": ("big", "-1", "1.5Mi", "nan", "9" * 30, "1Mi\n"),
    "BYTES": ("big", "-1", "1.5Mi", "nan", "9" * 30),
    "URL": ("127.0.0.1:99999", "ftp://h", "http://h:99999", "http://a b", "http://h\n", "http://"),
    "HOST:PORT": LISTENER,
    "[HOST]:PORT": LISTENER,
    "[HOST]:PORT|unix:/PATH": (*LISTENER, "unix:relative"),
    "PORT": ("http", "0", "-1", "65536"),
    "MODE": ("rw", "-1", "1777", "9"),
    "IP": ("h", "0.0.0.0", "1.2.3", "224.0.0.1"),
    "SHARE|NUMBER": ("0", "3/2", "-1", "1/0", "third"),
    "KEY": ("a b", "a/b/c", "/"),
    "KEY=VALUE": ("a", "=b", "a=b=c", "a b=c"),
    "RESOURCE[?QUERY]": ("leases.coordination.k8s.io", "Pods", "pods?x=1", "pods?namespace=A"),
    "RESOURCE[?QUERY]|none": ("secrets", "Pods", "pods?x=1"),
    "NAMESPACE:NAME": ("lc", "A:b", "a:"),
    "URL|off": ("maybe", "https://h"),
    "NAMESPACE": ("Upper", "a.b", "x" * 64, "a\nb"),
}
# What is not refused by its text: paths are looked at as files, below; other texts are free.
UNTYPED = {"FILE", "DIR", "FILE[:FILE]", "DIR|memory", "KEYFILE", "NAME", "UNIT"}


@dataclass(frozen=True)
class Case:
    program: str
    flag: str
    value: str

    def __str__(self) -> str:
        return f"{self.program} {self.flag}={self.value:.24}".encode("unicode_escape").decode()


def _generated() -> Iterator[Case]:
    for program, config in CONFIGS.items():
        for _, it in declared(config):
            yield Case(program, flag(it.name), "")
            is_choice = it.value not in BAD and "|" in it.value and it.value.islower()
            for value in ("neither",) if is_choice else BAD.get(it.value, ()):
                yield Case(program, flag(it.name), value)


def test_each_kind_of_value_has_bad_ones() -> None:
    kinds = {it.value for config in CONFIGS.values() for _, it in declared(config)}
    without = {it for it in kinds - BAD.keys() - UNTYPED if not ("|" in it and it.islower())}
    assert without == set()


@pytest.mark.parametrize("case", [*_generated()], ids=str)
def test_a_value_that_a_flag_does_not_take_is_named_with_the_remedy(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    line = _refusal(case.program, [f"{case.flag}={case.value}"], capsys)
    assert case.flag in line
    shown = " ".join(case.value.encode("unicode_escape").decode("ascii").split())
    assert any(it[:20] in line for it in (shown, case.value.strip())) or not case.value, line
    assert any(it in line for it in REMEDY), line


def test_there_are_hundreds_of_them() -> None:
    assert len([*_generated()]) >= 500
