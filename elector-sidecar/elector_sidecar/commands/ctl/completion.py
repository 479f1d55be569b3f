"""`kubectl_complete-elector`: what may follow the words after `kubectl elector`.

kubectl runs it at a press of the key
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
Guarantee: it never fails and never writes to standard error, since a shell is at work there. Names
of Leases come from the API server, by the flags that the line has already.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from edge_sidecars.runtime.cli.values import BadInput
from elector_sidecar.commands.ctl.cluster import Cluster, Failed
from elector_sidecar.commands.ctl.command import VERBS, parser
from elector_sidecar.commands.ctl.lease_list import is_ours

# Seconds that a press of the key may take.
TIMEOUT = 2.0
# Of cobra: no names of files beside these.
_NO_FILES = ":4"
_ANY = "any"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """0. `arguments`: the words of the line, of which the last one is not whole."""
    *words, begun = arguments or [""]
    found = [it for it in _following(words, begun, environ) if it.startswith(begun)]
    sys.stdout.write("".join(f"{it}\n" for it in (*found, _NO_FILES)))
    return 0


def _following(words: Sequence[str], begun: str, environ: Mapping[str, str]) -> list[str]:
    if not words:
        return [*VERBS]
    verb = VERBS.get(words[0])
    if verb is None:
        return []
    if begun.startswith("-"):
        return _flags(words[0])
    if words[-1] in ("-o", "--output"):
        return ["table", "json"]
    given = argparse.Namespace()
    try:
        # A whole line with a name there: then a name is what follows.
        parser().parse_args([*words, _ANY], given)
    except BadInput:
        return []
    if not verb.names_lease or given.lease != _ANY:
        return []
    try:
        return asyncio.run(_leases(given, environ))
    except (BadInput, Failed, TimeoutError):
        return []


async def _leases(given: argparse.Namespace, environ: Mapping[str, str]) -> list[str]:
    async with asyncio.timeout(TIMEOUT):
        cluster = Cluster(given, environ, user_agent="kubectl-elector")
        try:
            return sorted(
                it.raw["metadata"]["name"] for it in await cluster.leases() if is_ours(it)
            )
        finally:
            await cluster.close()


def _flags(verb: str) -> list[str]:
    commands = next(it for it in parser()._actions if isinstance(it, argparse._SubParsersAction))
    return [it for it in commands.choices[verb]._option_string_actions if it.startswith("--")]
