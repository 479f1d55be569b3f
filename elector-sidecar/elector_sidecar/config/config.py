"""The command line: flags with env twins, checked once, frozen.

Owns names, defaults and the messages for bad input, each of which names the value and the remedy.
A flag wins over its twin `ELECTOR_<FLAG>`; unknown `ELECTOR_*` are ignored, because a Service
named elector injects some; what looks like a mistyped one is a warning. No option is ignored: what
has no meaning beside another one is refused.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_sidecars.apimachinery.selection.shard_ranges import MAX_SHARDS, MIN_SHARDS
from edge_sidecars.runtime.cli.combinations import Needs, refuse_meaningless
from edge_sidecars.runtime.cli.options import (
    SERVICE_ACCOUNT_DIR,
    Options,
    Parser,
    api_server,
    command_line,
    log_format_option,
    log_level_option,
    may_be_there,
    one_of,
    option,
    option_values,
    pod_namespace,
    setting,
    switch_option,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables, proxy_variables
from edge_sidecars.runtime.cli.values import (
    Address,
    BadInput,
    address,
    api_server_url,
    check_distinct,
    count,
    seconds,
    url,
    url_like,
    whole,
)
from edge_sidecars.runtime.formats.rfc1123 import (
    MAX_LABEL,
    is_label,
    is_label_key,
    is_label_value,
    is_subdomain,
)
from elector_sidecar.config import DEFAULT_LISTEN, PREFIX, contrib
from elector_sidecar.core.moves.annotations import MAX_PRIORITY
from elector_sidecar.core.timing import Timing, UnsafeTiming

__all__ = ["Address", "BadInput", "Config", "address", "load", "parser", "seconds"]

# RFC 4122, as Kubernetes makes them.
UID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Part of a header of each request, of the Lease's holder and of log lines.
MAX_IDENTITY = 253
# Owner and group of a unix socket; in a pod with fsGroup that is every container's group.
SOCKET_MODE = "0660"

_MODE = re.compile(r"(0o)?[0-7]{1,8}")

# A program that a host runs, whose port is not asked for.
ANY_PORT = "127.0.0.1:0"
_NOT_WITH_A_PROGRAM = ("drain_url", "health_url", "lease_file", "release_on_term", "shards")
_COMBINATIONS = (
    Needs(("health_interval", "health_failures", "health_grace", "health_backoff"), "health_url"),
    Needs(("shard_settle",), "shards"),
    Needs(("priority_settle",), "priority"),
)


def shards(text: str) -> int:
    """How many. Raises `BadInput`."""
    try:
        found = whole(text)
    except BadInput:
        found = -1
    if found == 1:
        raise BadInput("'1': one shard is one leader; drop the flag")
    if not MIN_SHARDS <= found <= MAX_SHARDS:
        raise BadInput(
            f"{text!r:.40} is not a number: write one from {MIN_SHARDS} to {MAX_SHARDS}, like 64"
        )
    return found


def _priority(text: str) -> int:
    """Raises `BadInput`."""
    found = whole(text)
    if found > MAX_PRIORITY:
        raise BadInput(f"{text!r:.40} is over {MAX_PRIORITY}: write a smaller one, like 100")
    return found


def _mode(text: str) -> int:
    """Octal, as for chmod."""
    if not _MODE.fullmatch(text) or int(text, 8) > 0o777:
        raise BadInput(f"{text!r:.40} is not a mode: write it as for chmod, like 0660")
    return int(text, 8)


def label(text: str) -> tuple[str, str]:
    """Key and value. Raises `BadInput`."""
    key, equals, value = text.partition("=")
    if not (equals and is_label_key(key) and is_label_value(value)):
        raise BadInput(
            f"{text!r:.120} is not KEY=VALUE with a valid label key and value: write it like "
            "role=leader"
        )
    return key, value


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of `elector-sidecar`; durations in seconds."""

    lease: str = option(
        "NAME", "Lease name (required, or --lease-file)", default="", group="election"
    )
    lease_file: Path | None = option(
        "FILE", "has the Lease's name; may come later, and may change", Path
    )
    namespace: str = option(
        "NAMESPACE", "default: the pod's own, or the kubeconfig context's", default=""
    )
    identity: str = option("NAME", "default: POD_NAME, else the host name", default="")
    lease_duration: float = setting("15s", "whole seconds, at least 3s", seconds)
    renew_interval: float = setting("2s", "at least 1s", seconds)
    request_timeout: float = setting(
        "3s", "hard limit of one API request, once it has a connection", seconds
    )
    take_missing: bool = one_of(
        "wait|take",
        "a Lease that does not exist: wait one lease duration, or create at once",
        true="take",
        name="on_missing",
    )
    # None: contrib's listener is used instead.
    listen: Address | None = option(
        "[HOST]:PORT|unix:/PATH", f"default {DEFAULT_LISTEN}", address, group="HTTP"
    )
    socket_mode: int = option(
        "MODE", "of the unix socket: who may connect", _mode, default=SOCKET_MODE
    )
    probe_listen: Address | None = option(
        "[HOST]:PORT", "read-only paths, for kubelet and Prometheus; default off", address
    )
    priority: int = setting(
        "0", "of this replica: a higher one than the leader's asks for the lead", _priority
    )
    priority_settle: float = setting(
        "30s", "a replica asks only after it has contended for so long", seconds
    )
    shards: int | None = option(
        "NUMBER",
        "2-256: share the work instead of leading; the Lease is then the table of owners",
        shards,
        group="shards",
    )
    shard_settle: float = setting("5s", "a member takes its share only after so long", seconds)
    health_url: str | None = option(
        "URL", "contend only while the main is healthy", url, group="the main container"
    )
    health_interval: float = setting(
        "1s", "between two checks; also the limit of one, if over 1s", seconds
    )
    health_failures: int = setting("3", "so many in a row make it unhealthy", count)
    health_grace: float = setting("30s", "from acquisition, before failures count", seconds)
    health_backoff: float = setting("10s", "an ex-leader contends again after it", seconds)
    drain_url: str | None = option(
        "URL",
        "POSTed before release; a 2xx says that the main has stopped leading",
        url_like("http://127.0.0.1:8080/drain"),
    )
    drain_timeout: float = setting("10s", "then the Lease is left to expire", seconds)
    release_on_term: bool = switch_option(
        "at SIGTERM the main has stopped already (native sidecars)"
    )
    restart: bool = switch_option(
        "contend again after the program has ended", group="a program behind `--`"
    )
    # None: a third of the validity.
    stop_before: float | None = option(
        "DURATION",
        "the program gets SIGTERM when its lead is proven for no longer than this; default: a "
        "third of what a renewal proves",
        seconds,
    )
    notify_url: str | None = option(
        "URL",
        "the /leader document is POSTed there at each change",
        url_like("http://127.0.0.1:8080/leader"),
        group="telling others",
    )
    leader_label: tuple[str, str] | None = option(
        "KEY=VALUE", "kept on the leader's pod, taken off all others", label
    )
    kubeconfig: Path | None = option(
        "FILE[:FILE]",
        "default: the pod's service account; outside of a pod $KUBECONFIG, else ~/.kube/config",
        Path,
        group="API server",
    )
    # None: the kubeconfig's current one.
    context: str | None = option("NAME", "of the kubeconfig; default: its current one")
    server: str | None = option("URL", "overrides the address", api_server_url)
    service_account_dir: Path = option(
        "DIR", "default {default}", Path, default=SERVICE_ACCOUNT_DIR
    )
    log_format: str = log_format_option(group="logging")
    log_level: str = log_level_option()
    contrib_listen: Address | None
    pod_name: str | None
    pod_uid: str | None
    pod_namespace: str
    otlp_endpoint: str | None
    # Behind `--`: runs only while this candidate leads.
    program: tuple[str, ...] = ()
    # What named `kubeconfig`.
    kubeconfig_from: str = "--kubeconfig"
    proxies: ProxyVariables = NO_PROXIES
    warnings: tuple[str, ...] = ()
    timing: Timing = field(init=False)

    def __post_init__(self) -> None:
        """Raises `UnsafeTiming`, `BadInput`."""
        timing = Timing(self.lease_duration, self.renew_interval, self.request_timeout)
        object.__setattr__(self, "timing", timing)
        is_named_later = self.lease_file is not None and not self.lease
        if not (is_subdomain(self.lease) or is_named_later):
            raise BadInput(
                f"--lease {self.lease!r:.80} is not a Lease name: lower-case, digits, - and ."
            )
        if self.namespace and not is_label(self.namespace):
            raise BadInput(
                f"--namespace {self.namespace!r:.80} is not a namespace: lower-case, digits and -"
            )
        if not self.identity.isprintable() or len(self.identity) > MAX_IDENTITY:
            raise BadInput(
                f"--identity {self.identity!r:.80} is not printable or over {MAX_IDENTITY} "
                "characters: use the pod's name"
            )
        if self.lease_file is not None and self.release_on_term:
            raise BadInput(
                "--lease-file and --release-on-term exclude each other: the main still runs when "
                f"{self.lease_file} names another Lease; use --drain-url"
            )
        if self.lease_file is not None and self.shards is not None:
            raise BadInput(
                f"--lease-file {self.lease_file} and --shards exclude each other: a table has one "
                "name; use --lease"
            )
        check_distinct(
            {
                "--listen": self.listen,
                "--http": self.contrib_listen,
                "--probe-listen": self.probe_listen,
            }
        )
        if self.health_interval <= 0:
            raise BadInput(
                f"--health-interval {self.health_interval:g}s is not positive: use 1s, or more"
            )
        if self.shards is not None:
            self._check_shards()
        if self.stop_before is not None:
            self._check_stop_before(self.stop_before)
        if self.leader_label and not self.pod_name:
            raise BadInput("--leader-label needs the pod's own name: set POD_NAME (downward API)")

    @property
    def member_lease(self) -> str:
        """The Lease that this process contends for: with shards one of its own."""
        return self.lease if self.shards is None else f"{self.lease}-{self.identity}"

    def _check_stop_before(self, stop_before: float) -> None:
        most = self.timing.slack
        if not 0 < stop_before <= most:
            raise BadInput(
                f"--stop-before {stop_before:g}s is not between 0s and {most:g}s: a renewal proves "
                f"the lead for {self.timing.validity:g}s, and the next one may take "
                f"{self.timing.renew_interval + self.timing.request_timeout:g}s; raise "
                "--lease-duration or lower it"
            )

    def _check_shards(self) -> None:
        if self.priority:
            raise BadInput(
                f"--priority {self.priority} and --shards exclude each other: each member has its "
                "share; drop one"
            )
        if self.take_missing:
            raise BadInput(
                "--on-missing take and --shards exclude each other: a table that is created at "
                "once may be a second one; drop --on-missing"
            )
        if len(self.lease) > MAX_LABEL:
            raise BadInput(
                f"--lease {self.lease!r:.80} is over {MAX_LABEL} characters: with --shards "
                "it is a label's value too; use a shorter name"
            )
        if not is_subdomain(self.member_lease):
            raise BadInput(
                f"--identity {self.identity!r:.80}: with --shards {self.member_lease!r:.120} is "
                "the name of a Lease: use lower-case letters, digits, - and ., like the pod's name"
            )
        if self.pod_uid is not None and not UID_PATTERN.fullmatch(self.pod_uid):
            raise BadInput(
                f"POD_UID {self.pod_uid!r:.80} is no uid: set it by the downward API, "
                "fieldPath metadata.uid"
            )


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    it = command_line(
        Config,
        prog="elector-sidecar",
        example="elector-sidecar --lease my-controller --namespace default",
        manual="reference/elector",
        description="Contends for a Kubernetes Lease and answers on localhost who leads.",
        epilog="Sub-commands: `elector-sidecar run` (default; with `-- PROGRAM` behind the flags "
        "it runs that program while it leads), `elector-sidecar check` (exit 0 only if leader), "
        "`elector-sidecar status` (who leads), `elector-sidecar shards` (who owns what), "
        "`elector-sidecar ctl` (elections by their Leases, as `kubectl elector`), "
        "`elector-sidecar rbac` (the Role and RoleBinding to apply), "
        "`elector-sidecar livez` (exit 0 only if it answers). "
        "Every flag has an env twin, ELECTOR_<FLAG>.",
    )
    contrib.add_flags(it)
    return it


def load(arguments: Sequence[str], environ: Mapping[str, str], *, hostname: str) -> Config:
    """Raises `BadInput`. Contrib's flags are used for ours, before env twins are; both together say
    one thing twice."""
    arguments, program = _split(arguments, environ)
    flags = contrib.ContribFlags(vars(parser().parse_args(arguments)))
    others = {"namespace": "POD_NAMESPACE", "identity": "POD_NAME"}
    options = Options(flags.as_ours(), environ, prefix=PREFIX, others=others)
    with options.naming_variables():
        return _config(options, flags, environ, hostname=hostname, program=program)


def _config(
    options: Options,
    flags: contrib.ContribFlags,
    environ: Mapping[str, str],
    *,
    hostname: str,
    program: tuple[str, ...],
) -> Config:
    if options.text("lease") and options.text("lease_file"):
        raise BadInput(
            f"--lease {options.text('lease')!r:.80} and --lease-file exclude each other: drop one"
        )
    if not options.text("lease") and not options.text("lease_file"):
        raise BadInput(
            "--lease is required: name the Lease, like --lease my-controller, or set ELECTOR_LEASE"
        )
    values = option_values(Config, options)
    ttl = flags.ttl()
    if ttl is not None:
        lease_duration = contrib.lease_duration(ttl)
        values |= contrib.scaled_timing(lease_duration, options)
        if lease_duration != ttl:
            values["warnings"] = (f"--ttl {ttl:g}s was raised to {lease_duration:g}s",)
    contrib_listen = flags.listen()
    if values["listen"] is None and contrib_listen is None:
        # A host may run several programs, each with an elector of its own.
        values["listen"] = address(ANY_PORT if program else DEFAULT_LISTEN)
    pod_name = environ.get("POD_NAME") or None
    values["identity"] = values["identity"] or hostname
    _complete_api_server(values, flags, environ)
    try:
        config = Config(
            **values,
            contrib_listen=contrib_listen,
            pod_name=pod_name,
            pod_uid=environ.get("POD_UID") or None,
            program=program,
            otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
            proxies=proxy_variables(environ),
        )
    except UnsafeTiming as error:
        raise BadInput(str(error)) from error
    _refuse_meaningless(options, program)
    if config.context is not None and config.kubeconfig is None:
        raise BadInput(
            f"--context {config.context:.80} needs --kubeconfig: add it, or drop this one"
        )
    return config


def _split(
    arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """Our flags, and the program behind `--`. Raises `BadInput`."""
    if "--" not in arguments:
        return arguments, ()
    at = list(arguments).index("--")
    ours, program = arguments[:at], tuple(arguments[at + 1 :])
    if not program:
        raise BadInput("nothing follows `--`: name the program to run, like `-- ./backup.sh`")
    if shutil.which(program[0], path=environ.get("PATH")) is None:
        raise BadInput(
            f"{program[0]!r:.200} is no program that can be run: name a file with its path, or one "
            "in $PATH"
        )
    return ours, program


def _refuse_meaningless(options: Options, program: tuple[str, ...]) -> None:
    if program:
        if (said := next(options.among(*_NOT_WITH_A_PROGRAM), None)) is not None:
            raise BadInput(
                f"{said}: the program behind `--` is started and stopped by this process: drop one"
            )
    else:
        if (said := next(options.among("restart", "stop_before"), None)) is not None:
            raise BadInput(f"{said} needs a program: add `-- PROGRAM`, or drop this one")
        refuse_meaningless(Config, options, (Needs(("drain_timeout",), "drain_url"),))
    refuse_meaningless(Config, options, _COMBINATIONS)
    mode = next(options.among("socket_mode"), None)
    if mode is not None and not options.text("listen").startswith("unix:"):
        raise BadInput(f"{mode} needs --listen unix:/PATH: add it, or drop this one")


def _complete_api_server(
    values: dict[str, Any], flags: contrib.ContribFlags, environ: Mapping[str, str]
) -> None:
    """Which API server and namespaces are meant where no flag names them."""
    folder = values["service_account_dir"]
    own_namespace = pod_namespace(environ, folder, remedy="name the --namespace")
    if not (values["kubeconfig"] or values["server"] or flags.uses_cluster_credentials()):
        values |= _of_a_workstation(environ)
    kubeconfig = values["kubeconfig"]
    values["namespace"] = values["namespace"] or own_namespace
    values["pod_namespace"] = own_namespace or values["namespace"]
    if not values["namespace"] and kubeconfig is None:  # else its context may name one
        raise BadInput(
            "--namespace is missing: neither POD_NAMESPACE nor "
            f"{folder / 'namespace'} tells the pod's own; name it"
        )
    if kubeconfig is not None and flags.uses_cluster_credentials():
        raise BadInput("--use-cluster-credentials and --kubeconfig exclude each other: drop one")
    if values["server"] is None and kubeconfig is None:
        values["server"] = api_server(
            environ,
            remedy="there is neither $KUBECONFIG nor ~/.kube/config; name a --kubeconfig or a "
            "--server",
        )


def _of_a_workstation(environ: Mapping[str, str]) -> dict[str, Any]:
    """As kubectl finds a kubeconfig; nothing in a pod."""
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return {}
    named, home = environ.get("KUBECONFIG"), environ.get("HOME")
    if named:
        return {"kubeconfig": Path(named), "kubeconfig_from": "$KUBECONFIG"}
    usual = Path(home or "/", ".kube/config")
    if home and may_be_there(usual):
        return {"kubeconfig": usual, "kubeconfig_from": "~/.kube/config"}
    return {}
