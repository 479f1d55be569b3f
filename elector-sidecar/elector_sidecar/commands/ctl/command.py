"""`kubectl elector` and `elector-sidecar ctl`: from the arguments to the exit status.

`VERBS` is the table of sub-commands. Exit status: 0, 1 for what could not be done or learnt (one
line says why), 2 for bad input (one line with the value and the remedy), 130 when interrupted.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Final

from edge_sidecars.runtime.cli.options import Parser
from edge_sidecars.runtime.cli.startup import import_aiohttp
from edge_sidecars.runtime.cli.status_command import BAD_INPUT, FAILED, add_output
from edge_sidecars.runtime.cli.values import BadInput
from elector_sidecar.commands.ctl import lease_list, moves, shard_owners, status, term_history
from elector_sidecar.commands.ctl.cluster import Cluster, Failed, add_flags, check_lease
from elector_sidecar.commands.ctl.verb import Verb, printable

PROGRAM = "elector-sidecar ctl"
PLUGIN = "kubectl elector"
MANUAL = "how-to/use-kubectl-elector"
INTERRUPTED = 130

VERBS: Final[Mapping[str, Verb]] = {
    "list": Verb(
        text="the Leases of electors",
        run=lease_list.run,
        add=lease_list.add,
        names_lease=False,
        example="",
        takes_all_namespaces=True,
    ),
    "status": Verb(
        text="who leads, how long that is proven, who could, what is pending",
        run=status.run,
        add=status.add,
    ),
    "history": Verb(text="the last terms, and why each ended", run=term_history.run),
    "switchover": Verb(
        text="give the lead to another pod, and wait for it",
        run=moves.switchover,
        add=moves.add_switchover,
        has_output=False,
        example="my-controller --to my-controller-1",
    ),
    "hold": Verb(
        text="let no pod lead for a while, and wait for it",
        run=moves.hold,
        add=moves.add_hold,
        has_output=False,
        example="my-controller --for 2h",
    ),
    "resume": Verb(
        text="end a hold, and wait for a leader",
        run=moves.resume,
        add=moves.add_resume,
        has_output=False,
    ),
    "shards": Verb(text="who owns which shards", run=shard_owners.run),
}


def main(arguments: list[str], environ: Mapping[str, str], *, program: str = PROGRAM) -> int:
    given = argparse.Namespace(verb="")
    try:
        parser(program).parse_args(arguments, given)
        if VERBS[given.verb].names_lease:
            check_lease(given.lease, what="LEASE")
        return asyncio.run(_run(given, environ))
    except BadInput as error:
        return _failed(program, given.verb, error, BAD_INPUT)
    except Failed as error:
        return _failed(program, given.verb, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted; Python would complain again as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _run(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    import_aiohttp(os.environ)
    cluster = Cluster(given, environ, user_agent="kubectl-elector")
    try:
        return await VERBS[given.verb].run(cluster, given)
    finally:
        await cluster.close()


def parser(program: str = PROGRAM) -> Parser:
    it = Parser(
        prog=program,
        description="Shows and moves elections, by their Leases.",
        example=f"{program} status my-controller",
        manual=MANUAL,
    )
    commands = it.add_subparsers(title="commands", dest="verb", required=True, metavar="COMMAND")
    for name, verb in VERBS.items():
        example = f"{program} {name} {verb.example}".rstrip()
        one = commands.add_parser(name, help=verb.text, example=example, manual=MANUAL)
        if verb.names_lease:
            one.add_argument("lease", metavar="LEASE", help="the name of the Lease")
        if verb.add is not None:
            verb.add(one)
        if verb.has_output:
            add_output(one)
        add_flags(one, all_namespaces=verb.takes_all_namespaces)
    return it


def _failed(program: str, verb: str, error: Exception, status: int) -> int:
    called = f"{program} {verb}".rstrip()
    line = " ".join(str(error).split())
    sys.stderr.write(f"{called}: {printable(line)}\n")
    return status
