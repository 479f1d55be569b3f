"""Bad input of every program and sub-command: one line with the value and the remedy, status 2.

The first table is made from the declared flags: each with values that its type does not take. The
second one has what only several flags, a file or a variable make wrong.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import edge_sidecars.top.top_command
import elector_sidecar.app
import elector_sidecar.commands.check
import elector_sidecar.commands.ctl.command
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
import relay_node.commands.in_cluster
import relay_node.commands.node
import relay_sidecar.app
import relay_sidecar.commands.kubeconfig
import relay_sidecar.commands.rbac
import relay_sidecar.commands.status
from edge_sidecars.runtime.cli.options import declared, flag
from edge_sidecars.runtime.cli.probe import livez
from elector_sidecar.config.config import Config as ElectorConfig
from elector_sidecar.config.config import load as load_elector
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
    "edge-sidecars top": (edge_sidecars.top.top_command.main, ["127.0.0.1:1"]),
    "elector": (
        elector_sidecar.app.main,
        ["--lease=l", "--namespace=n", f"--server={NOWHERE}", "--listen=127.0.0.1:0"],
    ),
    "elector check": (elector_sidecar.commands.check.main, []),
    "elector ctl": (elector_sidecar.commands.ctl.command.main, []),
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
    "relay in-cluster": (relay_node.commands.in_cluster.main, ["--once"]),
    "relay kubeconfig": (relay_sidecar.commands.kubeconfig.main, []),
    "relay node": (relay_node.commands.node.main, []),
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
    *,
    alone: bool = False,
) -> str:
    """`alone`: without the arguments that are good."""
    main, good = MAINS[program]
    given = {word.partition("=")[0] for word in arguments}
    rest = [] if alone else [word for word in good if word.partition("=")[0] not in given]
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
    "DURATION": ("soon", "-1s", "nan", "inf", "1e9", "1 s", "1s\n", "3h30", "99999999999999d"),
    # Of --priority, which may be negative.
    "VALUE": ("many", "1.5", "nan", "9" * 30, "1\n"),
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


# ── each sub-command, and what only several flags, a file or a variable make wrong ──

CA, KEY_FILE = "--certificate-authority", "--keep-secrets"
CALLER = ["--access=caller"]
NODE_TLS = ["--server=https://127.0.0.1:1", "--client-certificate=/nowhere/c.pem"]
TLS = ["--tls-cert=/nowhere/c", "--tls-key=/nowhere/k"]
RBAC = ["--lease=l", "--service-account=a"]
RELAY_RBAC = ["--service-account=a", "--namespace=n"]
TWICE = ("--log-level=debug", "--log-level=info")
# Program, arguments, and parts of the line: the value and the remedy.
BY_HAND: list[tuple[str, list[str], tuple[str, ...]]] = [
    # Given twice.
    *((it, [*TWICE], ("'debug' and 'info'", "drop one")) for it in CONFIGS),
    ("elector", ["--lease=a", "--lease=b"], ("--lease is given twice, 'a' and 'b'", "drop one")),
    ("elector", ["-ttl=5s", "--ttl", "6s"], ("--ttl is given twice, '5s' and '6s'", "drop one")),
    ("elector", ["--release-on-term"] * 2, ("--release-on-term is given twice", "drop one")),
    ("elector check", ["--url=http://a:1", "--url=http://b:1"], ("'http://a:1'", "drop one")),
    ("elector check", ["--min-age=1s", "--min-age", "2s"], ("'1s' and '2s'", "drop one")),
    ("elector rbac", [*RBAC, "--lease=m"], ("'l' and 'm'", "drop one")),
    ("elector rbac", [*RBAC, "--shards=3", "--shards=4"], ("'3' and '4'", "drop one")),
    ("elector shards", ["-o", "json", "--output=table"], ("'json' and 'table'", "drop one")),
    ("elector status", ["--lease=l", "--lease=m"], ("'l' and 'm'", "drop one")),
    ("relay kubeconfig", ["--url=http://a", "--url=http://b"], ("'http://a'", "drop one")),
    ("relay in-cluster", ["--output=/a", "--output=/b"], ("'/a' and '/b'", "drop one")),
    ("relay in-cluster", ["--once", "--once"], ("--once is given twice", "drop one")),
    ("relay node", ["install", "--now", "--now"], ("--now is given twice", "drop one")),
    ("relay node", ["uninstall", "--data-dir=/a", "--data-dir=/b"], ("--data-dir", "drop one")),
    ("relay rbac", [*RELAY_RBAC, "--namespace=m"], ("'n' and 'm'", "drop one")),
    *(
        (it, ["--url=http://a:1", "--url=http://b:1"], ("'http://a:1'", "drop one"))
        for it in ("relay status", "pool status", "gm status", "lc status", "livez")
    ),
    # Not known.
    *((it, ["--lisen=x"], ("--lisen", "did you mean --listen?")) for it in CONFIGS if it != "lc"),
    ("lc", ["--mod=relay"], ("--mod", "did you mean --mode?")),
    *((it, ["more"], ("more", "--help")) for it in MAINS if it not in ("livez", "elector check")),
    ("elector check", ["more"], ("more", "it takes --url")),
    ("livez", ["more"], ("more", "it takes --url")),
    ("relay node", ["instal"], ("instal", "did you mean install?")),
    # Without a value.
    ("elector", ["--lease"], ("--lease lacks its value", "write --lease NAME")),
    ("elector", ["-ttl"], ("-ttl", "write ")),
    ("elector check", ["--url"], ("--url lacks its value", "it takes")),
    ("livez", ["--timeout"], ("--timeout lacks its value", "it takes")),
    ("relay rbac", ["--preload"], ("--preload lacks its value", "write --preload RESOURCE")),
    ("relay node", ["install", "--listen"], ("--listen lacks", "write --listen HOST:PORT")),
    # Values of sub-commands.
    ("elector check", ["--timeout=soon"], ("'soon'", "like 2s")),
    ("elector check", ["--timeout=0"], ("'0'", "more than 0")),
    ("elector check", ["--url=localhost"], ("'localhost'", "like http://127.0.0.1:4040")),
    ("elector check", ["--min-age="], ("--min-age ''", "write it like")),
    ("elector check", ["--min-remaining=-1s"], ("'-1s'", "write it like")),
    ("livez", ["--timeout=-1"], ("'-1'", "like 2s")),
    ("livez", ["--url=https://h"], ("'https://h'", "like http://127.0.0.1")),
    ("elector rbac", [], ("--lease is missing", "name the Lease")),
    ("elector rbac", ["--lease=l"], ("--service-account is missing", "name ")),
    ("elector rbac", [*RBAC, "--shards=many"], ("'many'", "write one from 2 to 256")),
    ("elector rbac", [*RBAC, "--shards=1"], ("'1'", "drop the flag")),
    ("elector rbac", [*RBAC, "--leader-label=x"], ("'x'", "write it like role=leader")),
    ("elector rbac", [*RBAC, "--namespace=A"], ("'A'", "lower-case")),
    ("elector rbac", ["--lease=a b", "--service-account=a"], ("'a b'", "lower-case")),
    ("elector status", ["--lease=A"], ("'A'", "lower-case")),
    ("elector status", ["--namespace=n"], ("--namespace n", "needs --lease")),
    ("elector status", ["--context=c"], ("--context c", "needs --lease")),
    ("elector status", ["--url=http://a:1", "--lease=l"], ("--url http://a:1", "drop one")),
    ("elector status", ["--lease=l", "--server=127.0.0.1:6443"], ("write https://127.0.0.1:6443",)),
    ("elector status", ["--lease=l", "--namespace=A"], ("'A'", "lower-case")),
    ("elector status", ["--lease=l", "--kubeconfig=/nowhere"], ("/nowhere", "checks it")),
    ("elector status", ["--lease=l", "--kubeconfig=/"], ("/", "checks it")),
    *(
        (it, ["--output=xml"], ("'xml'", "choose from"))
        for it in ("elector status", "elector shards", "relay status", "gm status", "lc status")
    ),
    *(
        (it, [f"--url={url}"], (url, "like http://"))
        for it in ("elector status", "elector shards", "relay status", "pool status", "lc status")
        for url in ("ftp://h", "https://h", "http://a b")
    ),
    ("relay kubeconfig", ["--listen=junk"], ("'junk'", "write it like")),
    ("relay kubeconfig", ["--access=all"], ("'all'", "choose one of")),
    ("relay kubeconfig", ["--url=h:1"], ("'h:1'", "write http://h:1")),
    ("relay kubeconfig", ["--url=https://h"], ("https://h is not http", "--tls-cert-file")),
    ("relay kubeconfig", ["--tls-cert-file=/nowhere"], ("/nowhere", "name a PEM")),
    ("relay kubeconfig", ["--tls-cert-file=/"], ("/: ", "name a PEM")),
    ("relay kubeconfig", ["--output=/nowhere/k"], ("/nowhere/k", "name a file")),
    ("relay in-cluster", [], ("--output is missing", "name the directory")),
    ("relay in-cluster", ["--output=/etc/hostname"], ("/etc/hostname", "name one")),
    ("relay in-cluster", ["--output=/x", "--log-format=xml"], ("'xml'", "choose one of")),
    ("relay in-cluster", ["--output=/x", "--serving=/s", f"{CA}=/c"], ("/s", "drop one")),
    ("relay rbac", [], ("--service-account is missing", "name ")),
    ("relay rbac", ["--service-account=a"], ("--namespace is missing", "name that")),
    ("relay rbac", RELAY_RBAC, ("--preload is missing", "name what")),
    ("relay rbac", [*RELAY_RBAC, "--preload="], ("--preload ''", "drop the flag")),
    ("relay rbac", [*RELAY_RBAC, "--preload=Pods"], ("'Pods'", "write it like")),
    ("relay node", [], ("COMMAND", "--help")),
    ("relay node", ["install", "--patience=-1s"], ("'-1s'", "write it like")),
    ("relay node", ["install", "--listen=junk"], ("'junk'", "write it like")),
    ("relay node", ["install", "--kubelet-kubeconfig=k"], ("'k' is relative", "name it from /")),
    ("relay node", ["prepare", "--pod-listen=junk"], ("'junk'", "write it like")),
    ("relay node", ["ipam-gc", "--max-age=old"], ("--max-age 'old'", "write it like")),
    ("relay node", ["status", "--url=h:1"], ("'h:1'", "write http://h:1")),
    ("relay node", ["doctor", "--output=xml"], ("'xml'", "choose from")),
    ("relay node", ["doctor", "--data-dir=x"], ("'x' is relative", "name it from /")),
    # Listeners in each other's way.
    ("elector", ["--listen=:80", "--probe-listen=[::1]:80"], ("taken by --listen", "another")),
    ("elector", ["--listen=unix:/a", "--http=unix:/a"], ("taken by --listen", "another")),
    ("relay", ["--listen=[::1]:80", "--status-listen=:80"], ("taken by --listen", "another")),
    ("gm", ["--listen=0.0.0.0:80", "--sedna-listen=h:80"], ("taken by", "another")),
    ("pool", ["--listen=[::1]:80", "--proxy-listen=localhost:80"], ("taken by", "another")),
    ("pool", ["--lan-port=80", "--listen=127.0.0.1:80"], ("127.0.0.1:80", "another")),
    ("lc", ["--bind-port=80", "--node-listen=:80", "--token-file=/t"], ("taken by", "another")),
    # Flags that mean nothing without, or beside, another one.
    ("elector", ["--drain-timeout=1s"], ("--drain-timeout 1s", "needs --drain-url")),
    ("elector", ["--health-grace=1s"], ("--health-grace 1s", "needs --health-url")),
    ("elector", ["--shard-settle=1s"], ("--shard-settle 1s", "needs --shards")),
    ("elector", ["--context=c"], ("--context c", "needs --kubeconfig")),
    ("elector", ["--socket-mode=0600"], ("--socket-mode 0600", "needs --listen unix:")),
    ("elector", ["--shards=3", "--on-missing=take"], ("--on-missing take", "drop --on-missing")),
    ("elector", ["--lease-file=/l"], ("--lease-file", "drop one")),
    ("elector", ["--leader-label=a=b"], ("--leader-label", "set POD_NAME")),
    ("elector", ["--lease-duration=5s", "--renew-interval=4s"], ("4s", "raise --lease-duration")),
    ("elector", ["--lease-duration=1.5s"], ("1.5s", "use 3s")),
    ("elector", ["--lease-duration=2d"], ("172800s", "use 1d")),
    ("elector", ["--request-timeout=0"], ("0s", "use 3s")),
    ("elector", ["--renew-interval=0.5s"], ("0.5s", "use 1s")),
    *(
        (it, [f"--server={url}"], (said, remedy))
        for it in ("elector", "relay", "pool controller")
        for url, said, remedy in (
            ("https://me:secret@h:1", "'https://h:1' has a user", "name a kubeconfig"),
            ("https://h:1/?a=b", "'https://h:1/?a=b' has more", "write it like"),
        )
    ),
    (
        "elector ctl",
        ["list", "--service-account-dir=/a", "--kubeconfig=/k"],
        ("--service-account-dir /a", "drop one"),
    ),
    ("relay", ["--access-ttl=1m"], ("--access-ttl 1m", "needs --access caller")),
    ("relay", [*CALLER, "--allowed-host=h"], ("--allowed-host h", "drop one")),
    ("relay", ["--listen=0.0.0.0:80"], ("0.0.0.0:80", "use --access caller")),
    (
        "relay",
        ["--pool=http://127.0.0.1:1"],
        ("--pool http://127.0.0.1:1 needs --pool-token-file", "add it"),
    ),
    ("relay", ["--tls-cert-file=/c"], ("needs --tls-private-key-file", "add it")),
    ("relay", ["--client-certificate=/c"], ("/c", "name an https")),
    ("relay", ["--client-key=/k"], ("--client-key", "needs --client-certificate")),
    ("relay", [f"{KEY_FILE}=/k"], ("--keep-secrets /k", "drop one")),
    ("relay", ["--retain=1m"], ("--retain 60s", "--idle-timeout")),
    ("relay", ["--max-objects=0"], ("--max-objects 0", "must be at least 1")),
    ("relay", ["--memory-budget=1Mi"], ("1048576", "must be at least 8Mi")),
    ("relay", ["--watch-buffer=1"], ("--watch-buffer 1", "must be at least 64Ki")),
    ("relay", ["--probe-interval=0"], ("--probe-interval 0s", "must be at least")),
    ("relay", ["--pool-resource=none", "--pool-resource=pods"], ("needs --pool",)),
    ("gm", ["--max-lcs=0"], ("--max-lcs 0", "must be at least 1")),
    ("gm", ["--concurrency=100000"], ("100000", "must be between")),
    ("gm", ["--client-ca=/c"], ("--client-ca /c", "needs --tls-cert")),
    ("gm", ["--tls-cert=/c"], ("need each other", "name both")),
    ("gm", ["--namespace=kube-system"], ("kube-system", "name another")),
    ("gm", ["--mode=relay"], ("--stream-listen", "drop one")),
    ("lc", ["--namespace=n"], ("--namespace n", "drop this one")),
    ("lc", ["--mode=relay"], ("--gm-address", "drop one")),
    ("lc", ["--node-listen=h:1"], ("h:1", "name a --token-file")),
    ("lc", ["--token-file=/t"], ("/t", "is for --node-listen")),
    ("lc", ["--tls-cert=/c", "--tls-key=/k"], ("--tls-cert /c", "name GM's CA")),
    ("lc", ["--files-root=/"], ("--files-root /", "name the directories")),
    ("lc", ["--max-transfer-size=0"], ("'0'", "write it like")),
    ("pool", ["--lend=false", "--lend-rate=1Mi"], ("--lend-rate 1Mi", "drop one")),
    ("pool", ["--lend-rate=1"], ("--lend-rate 1 ", "at least 4096")),
    ("pool", ["--lend-burst=1"], ("--lend-burst 1 ", "must be at least")),
    ("pool", ["--lend-connections=999"], ("999", "at most")),
    ("pool", ["--lan-port=0"], ("--lan-port 0", "from 1 to 65535")),
    # Files that are not there, or are directories.
    *(
        (it, [f"{name}={path}"], (f"{name} {path}", "checks it"))
        for it, name in (
            ("elector", "--kubeconfig"),
            ("relay", "--kubeconfig"),
            ("pool", "--node-kubeconfig"),
            ("pool controller", "--kubeconfig"),
        )
        for path in ("/nowhere/k", "/etc")
    ),
    ("relay", ["--local-token-file=/nowhere/t"], ("/nowhere/t", "write the token")),
    ("relay", ["--local-token-file=/etc"], ("/etc", "write the token")),
    ("relay", ["--tls-cert-file=/etc", "--tls-private-key-file=/etc"], ("/etc", "name ")),
    ("relay", NODE_TLS, ("/nowhere/c.pem", "name ")),
    ("gm", TLS, ("/nowhere/c", "name ")),
    ("lc", ["--data-dir=/proc/x"], ("--data-dir /proc/x", "name another")),
    ("lc", ["--data-dir=/etc/hostname"], ("/etc/hostname", "name another")),
    ("lc", ["--root=/nowhere"], ("--root /nowhere", "mount ")),
]


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    BY_HAND,
    ids=[f"{program} {' '.join(words)}" for program, words, _ in BY_HAND],
)
def test_what_is_wrong_together_is_named_with_the_remedy(
    program: str, arguments: list[str], said: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    line = _refusal(program, arguments, capsys)
    for part in said:
        assert part in line


VARIABLES: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
    (
        "elector",
        {"ELECTOR_LEASE": "l", "ELECTOR_RELEASE_ON_TERM": "perhaps"},
        ("'perhaps'", "ELECTOR_RELEASE_ON_TERM"),
    ),
    ("elector", {"ELECTOR_LAESE": "l"}, ("ELECTOR_LAESE", "did you mean ELECTOR_LEASE?")),
    ("relay", {"RELAY_SERVRE": NOWHERE}, ("RELAY_SERVRE", "did you mean RELAY_SERVER?")),
    ("relay", {"RELAY_SERVER": "h:1"}, ("'h:1'", "is from RELAY_SERVER")),
    ("pool", {"POOL_NOD": "n"}, ("POOL_NOD", "did you mean POOL_NODE?")),
    ("pool controller", {"POOL_CONTROLLER_SERVR": "n"}, ("did you mean POOL_CONTROLLER_SERVER?",)),
    ("gm", {"GM_MODE": "none"}, ("'none'", "is from GM_MODE")),
    ("lc", {"LC_MODEE": "relay"}, ("LC_MODEE", "did you mean LC_MODE?")),
    ("elector check", {"ELECTOR_LISTEN": "junk"}, ("ELECTOR_LISTEN 'junk'", "write it like")),
    ("elector status", {"ELECTOR_LISTEN": "junk"}, ("'junk'", "is from ELECTOR_LISTEN")),
    ("relay status", {"RELAY_STATUS_LISTEN": "junk"}, ("'junk'", "is from RELAY_STATUS_LISTEN")),
    ("livez", {"X_LISTEN": "junk"}, ("X_LISTEN 'junk'", "write it like")),
    ("relay rbac", {"RELAY_PRELOAD": "Pods"}, ("'Pods'", "write it like")),
    # What kubelet says in each pod, written by hand.
    *(
        (program, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, **more}, said)
        for program, more in (
            ("elector", {"ELECTOR_LEASE": "l", "ELECTOR_NAMESPACE": "n"}),
            ("elector ctl", {"POD_NAMESPACE": "n", "HOME": "/nowhere"}),
            ("relay", {"RELAY_DATA_DIR": "memory"}),
            ("pool controller", {}),
        )
        for host, port, said in (
            ("10.0.0.1", "http", ("'http'", "leave both to kubelet", "name a --kubeconfig")),
            ("10.0.0.1", "99999", ("'99999'", "leave both to kubelet")),
            ("a b", "443", ("'a b'", "leave both to kubelet")),
        )
    ),
    ("elector", {"ELECTOR_LEASE": "l", "KUBECONFIG": "~none/k"}, ("~none/k", "name its folder")),
    ("elector ctl", {"KUBECONFIG": "/nowhere/a:~none/k"}, ("~none/k", "name its folder")),
    ("elector ctl", {"KUBECONFIG": "/" + "k" * 300}, ("$KUBECONFIG", "checks it")),
]


@pytest.mark.parametrize(("program", "environ", "said"), VARIABLES, ids=lambda it: str(it)[:60])
def test_what_is_wrong_in_a_variable_is_named_with_it(
    program: str,
    environ: dict[str, str],
    said: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    # What is good would win over a variable.
    good = {"relay rbac": RELAY_RBAC, "elector ctl": ["list"]}.get(program, [])
    line = _refusal(program, good, capsys, environ, alone=True)
    for part in said:
        assert part in line


def test_on_and_off_are_booleans() -> None:
    for text, value in (("on", True), ("OFF", False), ("1", True), ("no", False)):
        environ = {"ELECTOR_RELEASE_ON_TERM": text, "POD_NAMESPACE": "n"}
        config = load_elector([f"--server={NOWHERE}", "--lease=l"], environ, hostname="h")
        assert config.release_on_term is value
