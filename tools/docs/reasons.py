"""The texts in which the elector and the relay give reasons, read from their syntax trees.

`…` stands for what differs from case to case.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from edge_sidecars.apimachinery import status as statuses
from elector_sidecar.core.handover import HandoverCause
from relay_sidecar.telemetry.status import LINK_STATES
from tools.docs.syntax import tree

_ELECTOR = "elector-sidecar/elector_sidecar"
_RELAY = "relay-sidecar/relay_sidecar"
# What makes a Status of words that its caller brings, and where among its arguments they are.
SPOKEN = {"unavailable": 0, "too_many": 0}
# Those that speak in kube-apiserver's words: of what the caller may not, of what it sent amiss.
_OF_KUBERNETES = ("authorizer.py", "status.py", "list_options.py")


def elector_reasons(root: Path) -> list[str]:
    """`reason` of /leader, without the causes that end it."""
    elector = root / _ELECTOR
    return [
        *_texts(_function(elector / "status.py", "_reason")),
        *_texts(_function(elector / "leases" / "lease_client.py", "refusal"), but={"watch"}),
        *_texts(_function(elector / "core" / "lifecycle.py", "_reason_for"), but={"not asked yet"}),
    ]


def elector_causes(_: Path) -> list[str]:
    return [it.value for it in HandoverCause]


def elector_answers(root: Path) -> list[str]:
    """What else the elector answers with a status that is about the election."""
    endpoints = root / _ELECTOR / "web" / "endpoints.py"
    return [*_answers(endpoints), *_texts(_function(endpoints, "_unmet"))]


def relay_refusals(root: Path) -> list[str]:
    """What the relay refuses in words of its own, and in Kubernetes' that it says itself."""
    return [
        *_spoken(root / _RELAY),
        statuses.unauthorized().message,
        statuses.timeout_outcome_unknown().message,
        statuses.conflict("nodes", "…", "it was patched before the link was back").message,
        statuses.expired().message,
        statuses.expired(7).message.replace("7", "…"),
        statuses.expired_continue().message,
        statuses.too_large_version(7, 5).message.replace("7", "…").replace("5", "…"),
    ]


def relay_states(root: Path) -> list[str]:
    """What the relay's own port says of its readiness."""
    relay = root / _RELAY
    problems = _texts(_function(relay / "telemetry" / "status.py", "problem"), but=LINK_STATES)
    return [*_answers(relay / "web" / "listener.py"), *problems]


def is_same(told: str, said: str) -> bool:
    """Whether a document's text stands for one of the source, or is one of those that it is for."""
    return any(
        re.fullmatch(re.escape(one).replace("…", ".+"), other)
        for one, other in ((told, said), (said, told))
    )


def _words(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            words = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
            return "".join(map(str, words))
        case ast.BinOp(left, ast.Add(), right):
            return f"{_words(left)}{_words(right)}"
    return None


def _function(path: Path, name: str) -> ast.FunctionDef:
    (found,) = (
        it for it in ast.walk(tree(path)) if isinstance(it, ast.FunctionDef) and it.name == name
    )
    return found


def _texts(function: ast.FunctionDef, but: Iterable[str] = ()) -> list[str]:
    """Whole texts of a function: not its docstring, not what only fills another text."""
    inside = {
        id(part)
        for it in ast.walk(function)
        if isinstance(it, ast.JoinedStr)
        for value in it.values
        for part in ast.walk(value)
    }
    if isinstance(function.body[0], ast.Expr):
        inside |= {id(it) for it in ast.walk(function.body[0])}
    found = {
        _words(it): None
        for it in ast.walk(function)
        if isinstance(it, ast.Constant | ast.JoinedStr) and id(it) not in inside
    }
    return [it for it in found if it and re.search(r"[a-z]{2}", it) and it not in but]


def _answers(path: Path) -> list[str]:
    """What `text` answers with a status that is not about the request."""
    found = dict[str, None]()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "text":
            status, said = node.args[:2]
            if ast.unparse(status) in ("503", "409", "403"):
                # Either of `a if … else b`, where one of them is made elsewhere.
                either = (_words(it) for it in (said, getattr(said, "orelse", said)))
                found |= {it: None for it in either if it}
    return list(found)


def _spoken(relay: Path) -> Iterator[str]:
    for path in sorted(relay.rglob("*.py")):
        if path.name in _OF_KUBERNETES:
            continue
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            made_by = ast.unparse(node.func)
            if made_by in SPOKEN:
                yield str(_words(node.args[SPOKEN[made_by]]))
            elif made_by == "forbidden":
                (why,) = (it.value for it in node.keywords if it.arg == "why")
                yield f"forbidden: {_words(why) or _assigned_why(path)}"


def _assigned_why(path: Path) -> str:
    """Of a `forbidden` whose `why` is a name: what was assigned to it in that module."""
    (value,) = (
        it.value
        for it in ast.walk(tree(path))
        if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "why"
    )
    return str(_words(value))
