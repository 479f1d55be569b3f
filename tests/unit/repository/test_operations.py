"""docs/operations.md is true of the code: each alert, each text that is told."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from edge_sidecars.apimachinery import status as statuses
from relay_sidecar.telemetry.status import LINK_STATES
from tests.unit.repository.checkout import ROOT, document, rows, section

OPERATIONS = "docs/operations.md"
METRICS = ["Of the elector", "Of the relay", "Of GM", "Of LC"]
ELECTOR = ROOT / "elector-sidecar" / "elector_sidecar"
RELAY = ROOT / "relay-sidecar" / "relay_sidecar"
# Who makes a Status of words that the caller brings, and where among its arguments they are.
SPOKEN = {"unavailable": 0, "too_many": 0}
# Those that speak in kube-apiserver's words: of what the caller may not, of what it sent amiss.
OF_KUBERNETES = ("resource_attributes.py", "status.py", "list_options.py")
# Of core/status.py: those that speak in kube-apiserver's words of what the client sent.
OF_THE_CLIENT = {"bad_request", "not_found", "invalid", "not_acceptable"}


def test_every_heading_of_metrics_is_a_program() -> None:
    found = re.findall(r"^### (.+)$", section(OPERATIONS, "Metrics"), re.M)
    assert found == METRICS


def test_every_alert_is_told_with_its_severity_and_no_other() -> None:
    groups = yaml.safe_load(document("manifests/monitoring/rules.yaml"))["groups"]
    rules = {rule["alert"]: rule["labels"]["severity"] for it in groups for rule in it["rules"]}
    told = {cells[0].strip("`"): cells[1] for cells in rows(OPERATIONS, "Alerts")}
    assert told == rules
    assert all(cells[2] for cells in rows(OPERATIONS, "Alerts"))


# ── what is said in words; what differs stands as … ──


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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef) and it.name == name)
    return found


def _texts(node: ast.AST) -> set[str]:
    """Whole texts of a function: not its docstring, not what only fills another text."""
    inside = {
        id(part)
        for it in ast.walk(node)
        if isinstance(it, ast.JoinedStr)
        for value in it.values
        for part in ast.walk(value)
    }
    docstring = node.body[0] if isinstance(node, ast.FunctionDef) else None
    skipped = {id(it) for it in ast.walk(docstring)} if isinstance(docstring, ast.Expr) else set()
    found = {
        _words(it)
        for it in ast.walk(node)
        if isinstance(it, ast.Constant | ast.JoinedStr)
        and id(it) not in inside
        and id(it) not in skipped
    }
    return {text for text in found if text and re.search(r"[a-z]{2}", text)}


def _enum(path: Path, name: str) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (it for it in ast.walk(tree) if isinstance(it, ast.ClassDef) and it.name == name)
    values = (it.value for it in found.body if isinstance(it, ast.Assign))
    return {str(it.value) for it in values if isinstance(it, ast.Constant)}


def _told(title: str, column: int) -> set[str]:
    """The texts of a column; a cell may have several."""
    cells = [cells[column] for cells in rows(OPERATIONS, title) if len(cells) > column]
    return {text for cell in cells for text in re.findall(r"`([^`]+)`", cell)}


def test_every_reason_of_the_elector_is_explained_and_no_other() -> None:
    handover = ELECTOR / "core" / "handover.py"
    reasons = _texts(_function(ELECTOR / "status.py", "_reason"))
    reasons |= _texts(_function(handover, "reason_for")) - {"not asked yet"}
    reasons |= _texts(_function(ELECTOR / "lease_client.py", "refusal")) - {"watch"}
    assert len(reasons) > 10
    reasons |= _enum(handover, "HandoverCause")
    answers = _answers(ELECTOR / "web" / "endpoints.py") | _texts(
        _function(ELECTOR / "web" / "endpoints.py", "_unmet")
    )
    told = _told("What an elector says", 0)
    assert told == reasons | answers


def _answers(path: Path) -> set[str]:
    """What `text` answers with a status that is about the election, not about the request."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "text":
            status, said = node.args[:2]
            if ast.unparse(status) in ("503", "409", "403"):
                # Either of `a if … else b`, where one of them is `_unmet`'s.
                found |= {_words(it) for it in (said, getattr(said, "orelse", said))} - {None}
    return {str(text) for text in found}


def test_each_state_of_a_mains_health_is_told() -> None:
    (row,) = (
        cells
        for cells in rows(OPERATIONS, "What an elector says")
        if cells[0] == "`the main is not healthy: …`"
    )
    states = _enum(ELECTOR / "core" / "health_gate.py", "Health") - {"ok"}
    named = set(re.findall(r"`([^`]+)`", row[1]))
    assert named - {"--health-url"} == states | {"not asked yet"}


def test_every_refusal_of_the_relay_is_explained_and_no_other() -> None:
    told = _told("What a relay says", 1) - {"--access caller", "/readyz?upstream=true"}
    spoken = set(_spoken())
    fixed = {
        statuses.unauthorized().message,
        statuses.timeout_outcome_unknown().message,
        statuses.expired().message,
        statuses.expired(7).message.replace("7", "…"),
        statuses.expired_continue().message,
        statuses.too_large_version(7, 5).message.replace("7", "…").replace("5", "…"),
    }
    assert len(spoken) > 8
    for said in spoken | fixed:
        assert any(_fits(each, said) for each in told), said
    for each in told:
        assert any(_fits(each, said) for said in spoken | fixed), each


def _fits(told: str, said: str) -> bool:
    return re.fullmatch(re.escape(told).replace("…", ".+"), said) is not None


def _spoken() -> Iterator[str]:
    """What the relay says in its own words, but for the origin, which speaks as kube-apiserver."""
    for path in RELAY.rglob("*.py"):
        if "origin" in path.relative_to(RELAY).parts or path.name in OF_KUBERNETES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            made_by = ast.unparse(node.func)
            if made_by in SPOKEN:
                yield str(_words(node.args[SPOKEN[made_by]]))
            elif made_by == "forbidden":
                (why,) = (it.value for it in node.keywords if it.arg == "why")
                text = _words(why)
                yield f"forbidden: {text if text else _why(path)}"


def _why(path: Path) -> str:
    """Of a `forbidden` whose `why` is a name: what was assigned to it in that module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (value,) = (
        it.value
        for it in ast.walk(tree)
        if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "why"
    )
    return str(_words(value))


def test_no_maker_of_a_refusal_is_left_out() -> None:
    tree = ast.parse(
        (ROOT / "lib/edge_sidecars/apimachinery/status.py").read_text(encoding="utf-8")
    )
    makers = {
        it.name
        for it in tree.body
        if isinstance(it, ast.FunctionDef) and ast.unparse(it.returns or it) == "Status"
    }
    fixed = {"unauthorized", "timeout_outcome_unknown", "expired", "expired_continue"}
    assert makers == set(SPOKEN) | fixed | {"too_large_version", "forbidden"} | OF_THE_CLIENT


def test_what_the_relays_own_port_says_is_explained() -> None:
    told = _told("What a relay says", 0)
    said = _answers(RELAY / "web" / "own_endpoints.py")
    said |= _texts(_function(RELAY / "telemetry" / "status.py", "problem")) - set(LINK_STATES)
    assert len(said) == 4
    for text in said:
        assert any(_fits(text, each) or _fits(each, text) for each in told), text
    lacks = {
        ast.literal_eval(it.value)
        for path in ((RELAY / "wiring").glob("*relay.py"))
        for it in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "self._unmet"
    } - {""}
    assert {f"not ready: {it}" for it in lacks} <= told
