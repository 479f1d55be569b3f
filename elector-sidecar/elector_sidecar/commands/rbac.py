"""`elector-sidecar rbac`: the Role of an elector and its RoleBinding, as YAML to apply.

The rules are those of manifests/rbac/elector and components/elector-shards, for one Lease and one
service account. Asks no server.
"""

import argparse
import sys
from collections.abc import Mapping

from edge_sidecars.apimachinery.selection.shard_ranges import MIN_SHARDS
from edge_sidecars.runtime.cli.options import Options, Parser
from edge_sidecars.runtime.cli.program import run_command
from edge_sidecars.runtime.cli.rbac_manifest import (
    Account,
    Grant,
    Rule,
    manifest,
    namespace,
    service_account,
)
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.formats.rfc1123 import MAX_LABEL, is_subdomain
from elector_sidecar.config import PREFIX
from elector_sidecar.config.config import label, shards

PROG = "elector-sidecar rbac"
LEASES = "coordination.k8s.io"
ELECTION = "edge-sidecars.io/election"
LABELS = {"edge-sidecars.io/component": "elector"}
_EVENTS = Rule(
    "Records who became leader; leave it out, and no Events are recorded.",
    "",
    ["events"],
    ["create"],
)
_SHARDS = (
    Rule(
        "Finds the table and the Leases of all members by their label; RBAC cannot limit that to a "
        "label.",
        LEASES,
        ["leases"],
        ["list", "watch"],
    ),
    Rule(
        "Its own Lease, the table, and the Lease of a member that died: their names are those of "
        "pods, which RBAC cannot know. manifests/election-policy limits the writes.",
        LEASES,
        ["leases"],
        ["get", "create", "update"],
    ),
)
_LEADER_LABEL = Rule(
    "Finds the pods that bear the label, and moves it; RBAC knows no labels, so it holds for all "
    "pods of the namespace.",
    "",
    ["pods"],
    ["list", "watch", "patch"],
)


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0, or 2 for bad input."""
    return run_command(PROG, lambda: _print(arguments, environ))


def _print(arguments: list[str], environ: Mapping[str, str]) -> None:
    given = vars(_parser().parse_args(arguments))
    options = Options(given, environ, prefix=PREFIX)
    with options.naming_variables():
        text = manifest([_grant(options)])
    sys.stdout.write(text)


def _parser() -> argparse.ArgumentParser:
    it = Parser(
        prog=PROG,
        example="elector-sidecar rbac --lease shop --service-account shop --namespace shop",
        manual="reference/elector",
        description="Prints the Role of an elector and its RoleBinding, to `kubectl apply`.",
        epilog="Apply it in the namespace of the pods: `… | kubectl apply -n NS -f -`.",
    )
    it.add_argument("--lease", metavar="NAME", help="the Lease (required)")
    it.add_argument(
        "--service-account", metavar="NAME", help="of the pods with the elector (required)"
    )
    it.add_argument("--namespace", metavar="NS", help="default: that of kubectl")
    for name, value, some in (
        ("shards", "NUMBER", str(MIN_SHARDS)),
        ("leader-label", "KEY=VALUE", "role=leader"),
    ):
        text = f"for electors with --{name}, whose value may be named too"
        it.add_argument(f"--{name}", metavar=value, nargs="?", const=some, help=text)
    return it


def _grant(options: Options) -> Grant:
    lease, is_sharded = options.text("lease"), bool(options.parsed("shards", shards, 0))
    _check_lease(lease, is_sharded=is_sharded)
    where = options.parsed("namespace", namespace, "")
    rules = [*(_SHARDS if is_sharded else _one_leader(lease)), _EVENTS]
    if options.parsed("leader_label", label, None):
        rules.append(_LEADER_LABEL)
    account = Account(name=_account(options), namespace=where)
    return Grant(
        name=f"{lease}-elector",
        account=account,
        rules=rules,
        namespace=where,
        labels=LABELS,
        # Another account may contend for the Lease too: applied, its subjects would replace ours.
        binding=f"{lease}-elector:{account.name}",
        binding_labels={ELECTION: lease} if is_sharded else {},
    )


def _check_lease(lease: str, *, is_sharded: bool) -> None:
    if not lease:
        raise BadInput("--lease is missing: name the Lease, as in the elector's flags")
    if not is_subdomain(lease):
        raise BadInput(
            f"--lease {lease!r:.80} is not a Lease name: lower-case letters, digits, - and ."
        )
    if is_sharded and len(lease) > MAX_LABEL:
        raise BadInput(
            f"--lease {lease!r:.80} is over {MAX_LABEL} characters: with --shards it is a "
            "label's value too; use a shorter name"
        )


def _account(options: Options) -> str:
    try:
        return service_account(options.text("service_account"))
    except BadInput as error:
        raise BadInput(f"--service-account {error}") from error


def _one_leader(lease: str) -> tuple[Rule, ...]:
    return (
        Rule(
            "Reads, follows and renews this one Lease.",
            LEASES,
            ["leases"],
            ["get", "watch", "update"],
            [lease],
        ),
        Rule(
            "Writes the Lease back if somebody deletes it; RBAC cannot limit `create` to a name.",
            LEASES,
            ["leases"],
            ["create"],
        ),
    )
