"""What the sources of the programs say of their interface.

Flags are the declared options of each `Config`. Metrics, log messages and tables of SQL are read
from the syntax trees, without running anything.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edge_sidecars.runtime.cli.options import Parser, declared, flag
from elector_sidecar.config import PREFIX as ELECTOR_PREFIX
from elector_sidecar.config.config import Config as ElectorConfig
from elector_sidecar.config.config import parser as elector_parser
from gm.config import PREFIX as GM_PREFIX
from gm.config.config import Config as GmConfig
from gm.config.config import parser as gm_parser
from lc.config import PREFIX as LC_PREFIX
from lc.config.config import Config as LcConfig
from lc.config.config import parser as lc_parser
from pool_sidecar.config import PREFIX as POOL_PREFIX
from pool_sidecar.config.controller_config import CONTROLLER_PREFIX, ControllerConfig
from pool_sidecar.config.controller_config import parser as controller_parser
from pool_sidecar.config.member_config import MemberConfig
from pool_sidecar.config.member_config import parser as pool_parser
from relay_sidecar.config import PREFIX as RELAY_PREFIX
from relay_sidecar.config.config import Config as RelayConfig
from relay_sidecar.config.config import parser as relay_parser
from tools.docs.syntax import tree

LIBRARY = "lib/edge_sidecars"
# What GM, LC and the controller of pools alone use of kubeapi.
REFLECTOR = "kubeapi/reflector.py"
# Without shards.
_LEADER_CLIENT = ("leader_client/client.py", "leader_client/document_stream.py")
# `level` is a method of `logger` under a name.
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log", "level"}
_METRIC = re.compile(r"(leader_election|edge_sidecars|process|elector|relay|pool|gm|lc)_[a-z0-9_]+")
# Not those of sysconf(3).
_VARIABLE = re.compile(r"(?!SC_)[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


@dataclass(frozen=True)
class Program:
    """`package`: its folder; `metrics`: the modules that make them; `shares`: what it logs by, of
    the library; `beside`: what is its own besides its folder, where a package has two programs."""

    package: str
    config: type
    parser: Parser
    prefix: str
    metrics: tuple[str, ...]
    shares: tuple[str, ...]
    beside: tuple[str, ...] = ()


PROGRAMS = {
    "elector": Program(
        "elector-sidecar/elector_sidecar",
        ElectorConfig,
        elector_parser(),
        ELECTOR_PREFIX,
        ("metrics.py", "shards/machine.py"),
        ("runtime", "kubeapi"),
    ),
    "relay": Program(
        "relay-sidecar/relay_sidecar",
        RelayConfig,
        relay_parser(),
        RELAY_PREFIX,
        ("telemetry/metrics.py", "endpoint_view/view_status.py"),
        ("runtime", "kubeapi", "walstore"),
        ("relay-sidecar/relay_node",),
    ),
    "pool-controller": Program(
        "pool-sidecar/pool_sidecar/controller",
        ControllerConfig,
        controller_parser(),
        CONTROLLER_PREFIX,
        ("metrics.py",),
        ("runtime", REFLECTOR, "controllers", *_LEADER_CLIENT),
    ),
    "pool": Program(
        "pool-sidecar/pool_sidecar/member",
        MemberConfig,
        pool_parser(),
        POOL_PREFIX,
        ("metrics.py",),
        ("runtime", "kubeapi"),
        ("pool-sidecar/pool_sidecar/lan", "pool-sidecar/pool_sidecar/member_app.py"),
    ),
    "gm": Program(
        "gm/gm",
        GmConfig,
        gm_parser(),
        GM_PREFIX,
        ("telemetry/metrics.py",),
        ("runtime", REFLECTOR, "controllers", "leader_client"),
    ),
    "lc": Program(
        "lc/lc",
        LcConfig,
        lc_parser(),
        LC_PREFIX,
        ("status.py",),
        ("runtime", REFLECTOR, "walstore"),
    ),
}


@dataclass(frozen=True)
class FlagLine:
    """`default`: "" where the value without the flag is no constant. `options`: --flag, and other
    spellings."""

    options: tuple[str, ...]
    value: str
    default: str
    text: str


def flags(program: Program) -> Iterator[FlagLine]:
    """The flags in the order of `--help`, which is left out itself, as `--version` is."""
    defaults = {flag(it.name): it.default or "" for _, it in declared(program.config)}
    for action in program.parser._actions:
        if not {"--help", "--version"} & {*action.option_strings}:
            options, text = tuple(action.option_strings), action.help or ""
            written = re.search(r"default ([^\s<;]*[/:][^\s<;]*)", text)
            default = defaults.get(options[0], "") or (written[1] if written else "")
            yield FlagLine(options, str(action.metavar or ""), default, text)


@dataclass(frozen=True)
class MetricLine:
    name: str
    kind: str
    text: str


def metrics(root: Path, program: Program) -> Iterator[MetricLine]:
    """What a program has by itself: `metrics_in` its modules."""
    for module in program.metrics:
        yield from metrics_in(root / program.package / module)


def metrics_in(path: Path) -> Iterator[MetricLine]:
    """From the calls that make them: `gauge(NAME, TEXT, …)` and its like,
    `Metric(NAME, Kind.GAUGE, TEXT, …)` and `_labelled(Kind.GAUGE, NAME, TEXT, …)`; and from TEXTS,
    the table for `measured`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TEXTS":
            for declared, text in ast.literal_eval(node.value).items():
                name = declared.partition("{")[0]
                yield MetricLine(name, "counter" if name.endswith("_total") else "gauge", text)
        if not isinstance(node, ast.Call):
            continue
        texts = [str(it.value) for it in node.args if isinstance(it, ast.Constant)]
        kinds = [ast.unparse(it) for it in node.args if ast.unparse(it).startswith("Kind.")]
        made_by = ast.unparse(node.func).removeprefix("_")
        if made_by in ("gauge", "counter", "histogram"):
            kinds = [made_by]
        if kinds and len(texts) > 1 and _METRIC.fullmatch(texts[0]):
            yield MetricLine(texts[0], kinds[0].removeprefix("Kind.").lower(), texts[1])


@dataclass(frozen=True)
class LogLine:
    level: str
    message: str
    fields: tuple[str, ...]


def logged(root: Path, program: Program) -> Iterator[LogLine]:
    """What a program logs, by what it shares with others too."""
    for path in _paths(root, program):
        if path.name != Path(REFLECTOR).name or REFLECTOR in program.shares:
            yield from _logged_in(path)


def all_logged(root: Path) -> Iterator[LogLine]:
    for path in _modules(root):
        yield from _logged_in(path)


def texts(root: Path, program: Program) -> set[str]:
    """All texts of the code that `logged` reads."""
    return {it for path in _paths(root, program) for it in _texts_in(path)}


@cache
def _texts_in(path: Path) -> tuple[str, ...]:
    module = tree(path)
    exported = {
        id(text)
        for it in module.body
        if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "__all__"
        for text in ast.walk(it.value)
    }
    return tuple(
        str(it.value)
        for it in ast.walk(module)
        if isinstance(it, ast.Constant) and id(it) not in exported
    )


@cache
def _logged_in(path: Path) -> tuple[LogLine, ...]:
    # Most modules log nothing: to walk each function of theirs takes most of the time.
    logs = re.search(r"\b(logger|level)\b", path.read_text(encoding="utf-8"))
    return tuple(_log_calls(tree(path))) if logs else ()


def _log_calls(module: ast.Module) -> Iterator[LogLine]:
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            level = _log_level(node.func) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and level:
                # `logger.log` has the level before its message.
                for message in (
                    it for arg in node.args[:2] for it in _words(arg, function, module)
                ):
                    yield LogLine(level, message, tuple(sorted(_fields(node))))


def _log_level(called: ast.expr) -> str:
    """The level of a call of `logger` or `level`, "" of any other."""
    match called:
        case ast.Attribute(ast.Name("logger"), name) | ast.Name("level" as name):
            return name if name in _LEVELS else ""
    return ""


def _words(
    node: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef, module: ast.Module
) -> Iterator[str]:
    """A text; what is assigned to a name; what callers give for a parameter."""
    yield from _texts(node)
    if not isinstance(node, ast.Name):
        return
    for it in ast.walk(function):
        if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == node.id:
            yield from _texts(it.value)
    parameters = [it.arg for it in function.args.args if it.arg != "self"]
    if node.id in parameters:
        index = parameters.index(node.id)
        for it in ast.walk(module):
            if isinstance(it, ast.Call) and ast.unparse(it.func).endswith(function.name):
                yield from (text for arg in it.args[index : index + 1] for text in _texts(arg))


def _texts(node: ast.expr) -> Iterator[str]:
    """A text, or both of `a if … else b`."""
    match node:
        case ast.Constant(str(text)):
            yield text
        case ast.IfExp():
            yield from _texts(node.body)
            yield from _texts(node.orelse)


def _fields(node: ast.Call) -> Iterator[str]:
    for keyword in node.keywords:
        for each in ast.walk(keyword.value) if keyword.arg == "extra" else ():
            if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("fields"):
                yield from (it.arg or "**" for it in each.keywords)


def constants(root: Path) -> Iterator[str]:
    """Tables of SQL, variables of the environment, options: what the code names as a text."""
    for text in (" ".join(it.split()) for path in _modules(root) for it in _texts_in(path)):
        if "CREATE TABLE" in text:
            yield f"sql {text}"
        elif _VARIABLE.fullmatch(text):
            yield f"variable {text}"
        elif re.fullmatch(r"--[a-z][a-z0-9-]+", text):
            yield f"option {text}"


def _modules(root: Path) -> Iterator[Path]:
    own = (folder for it in PROGRAMS.values() for folder in (it.package, *it.beside))
    for folder in (LIBRARY, *own):
        yield from (it for it in _below(root / folder) if "_pb2" not in it.name)


def _paths(root: Path, program: Program) -> Iterator[Path]:
    """The modules of a program, and those that it logs by."""
    own = (root / it for it in (program.package, *program.beside))
    for path in (*own, *(root / LIBRARY / it for it in program.shares)):
        yield from _below(path)


def _below(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
