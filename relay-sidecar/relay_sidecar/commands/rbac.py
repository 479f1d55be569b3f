"""`relay-sidecar rbac`: what a relay needs to keep what `--preload` names, as YAML to apply.

`list` and `watch`, and no more: what the main reads and writes itself is for its own Role. A query
with a namespace makes a Role there, one with metadata.name limits it to that name, and one for all
namespaces, or for a resource without any, makes a ClusterRole. Makes no request.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping

from edge_sidecars.apimachinery.selection.fields import NAME
from edge_sidecars.runtime.cli.options import Options, Parser, named
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
from relay_sidecar.config import PREFIX
from relay_sidecar.config.preload import Preload, parse_preload

PROG = "relay-sidecar rbac"
LABELS = {"edge-sidecars.io/component": "relay"}


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0, or 2 for bad input."""
    return run_command(PROG, lambda: _print(arguments, environ))


def _print(arguments: list[str], environ: Mapping[str, str]) -> None:
    options = Options(vars(_parser().parse_args(arguments)), environ, prefix=PREFIX)
    sys.stdout.write(manifest(_grants(options)))


def _parser() -> argparse.ArgumentParser:
    it = Parser(
        prog=PROG,
        example="relay-sidecar rbac --service-account shop --namespace shop --preload configmaps",
        manual="reference/relay",
        description="Prints the Roles that a relay needs for what it keeps and their bindings, to "
        "`kubectl apply`.",
        epilog="Without a namespace in its query a resource is read in all namespaces, for which a "
        "ClusterRole is printed.",
    )
    it.add_argument(
        "--service-account", metavar="NAME", help="of the pods with the relay (required)"
    )
    it.add_argument("--namespace", metavar="NS", help="of the service account (required)")
    it.add_argument(
        "--preload",
        metavar="RESOURCE[?QUERY]",
        action="append",
        help="as the relay is told it, like configmaps?namespace=shop; may be repeated (required)",
    )
    return it


def _grants(options: Options) -> Iterator[Grant]:
    try:
        name = service_account(options.text("service_account"))
    except BadInput as error:
        raise BadInput(f"--service-account {error}") from error
    if not options.text("namespace"):
        raise BadInput("--namespace is missing: name that of the service account")
    account = Account(name=name, namespace=options.parsed("namespace", namespace, ""))
    kept = [named("preload", parse_preload, it) for it in options.texts("preload")]
    if not kept:
        raise BadInput(
            "--preload is missing: name what the relay keeps, like configmaps?namespace=shop"
        )
    # Another account of the same name has roles of its own there.
    abroad = f"{account.namespace}:{account.name}-relay"
    for where in dict.fromkeys(it.namespace for it in kept):
        here = [it for it in kept if it.namespace == where]
        yield Grant(
            name=f"{account.name}-relay" if where == account.namespace else abroad,
            account=account,
            rules=list(dict.fromkeys(map(_rule, here))),
            namespace=where or None,
            labels=LABELS,
        )


def _rule(it: Preload) -> Rule:
    name = it.fields.exact(NAME)
    names = () if name is None else (name,)
    return Rule("Lists it once and watches it.", it.group, (it.plural,), ("list", "watch"), names)
