"""The controller's loop: what is observed goes into the core, its commands to the API server.

Guarantees: nothing is done but while this process leads for longer than a request takes and the
admission policies are in force; both are asked anew before each write. `dead` is sent only after
the Nodes of the pool were read once more. A command is reported back to the core whatever became of
it. Changes take effect at once, and time is looked at each second.
"""

import asyncio
from typing import Final, Never

from edge_sidecars.controllers.guarded_writes import NotLeading
from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.leader_client import LeaderClient
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger, sparing
from pool_sidecar.config.controller_config import ControllerConfig
from pool_sidecar.controller.api import PoolApi, failure
from pool_sidecar.controller.events import NodeEvents
from pool_sidecar.controller.follow import follow_members, follow_nodes
from pool_sidecar.controller.policies import PolicyWatch
from pool_sidecar.core.controller.conditions import (
    NOT_REACHABLE,
    POOL_FULL,
    SetConditions,
    pool_full,
)
from pool_sidecar.core.controller.membership import pool_of
from pool_sidecar.core.controller.node_state import DEAD as DEAD_KEY
from pool_sidecar.core.controller.node_state import KEEP_PODS
from pool_sidecar.core.controller.pool_controller import Command, PoolController, PoolPlan
from pool_sidecar.core.controller.taints import TaintNode, TaintPolicy

# Seconds.
LOOK_EVERY: Final = 1.0
# So that a list of changes is one look; what waits for it is not urgent.
GATHER: Final = 0.1
# Writes at a time: a site that heals has as many as nodes.
CONCURRENCY: Final = 8
# A request may wait as long for a connection as for the answer.
WAITS_PER_REQUEST: Final = 2

DEAD: Final = "Dead"
NOT_DEAD: Final = "NotDead"
CANNOT_TELL: Final = "CannotTell"
KEPT: Final = "Kept"
INVALID_POOL_NAME: Final = "InvalidPoolName"
SPEAKS: Final = "its kubelet speaks again"


class Controller:
    """`run` runs until it is cancelled."""

    def __init__(self, config: ControllerConfig, api: ApiClient, *, instance: str) -> None:
        self.began = boottime()
        self._api = api
        self._elector = config.elector
        self.leader = LeaderClient(
            config.elector,
            request_timeout=config.request_timeout * WAITS_PER_REQUEST,
            user_agent=f"pool-controller ({instance})",
        )
        self.core = PoolController(TaintPolicy(config.max_dead, config.taint_cut), self.began)
        self.writes = PoolApi(
            api,
            may_act=self.may_act,
            timeout=config.request_timeout,
            pool_label=config.pool_label,
        )
        self.policies = PolicyWatch(self.writes)
        self.events = NodeEvents(self.writes.guarded, instance=instance)
        self.pool_label = config.pool_label
        self._moved = asyncio.Event()
        self._places = asyncio.Semaphore(CONCURRENCY)
        self.leader.subscribe(self._moved.set)

    def may_act(self) -> bool:
        return not self.policies.lack and self.leader.may_act()

    @property
    def lack(self) -> str:
        """Why this process is not ready to lead; "" where it is."""
        if self.core.missing:
            return f"not listed yet: {', '.join(self.core.missing)}"
        return self.policies.lack

    def say_hello(self, listen: Address) -> None:
        logger.info(
            "controlling pools",
            extra=fields(
                pool_label=self.pool_label,
                server=self._api.url,
                proxy="none" if self._api.proxy is None else self._api.proxy.url,
                elector=self._elector,
                listen=listen,
            ),
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            decode = self.writes.parse_node
            group.create_task(follow_nodes(self._api, self.core, self._moved.set, decode=decode))
            group.create_task(follow_members(self._api, self.core, self._moved.set))
            group.create_task(self.leader.run())
            group.create_task(self.policies.run())
            group.create_task(self.events.recorder.run())
            await self._loop(group)

    async def _loop(self, group: asyncio.TaskGroup) -> Never:
        while True:
            await is_set(self._moved, within=LOOK_EVERY)
            self._moved.clear()
            if self.core.looked(boottime()):
                logger.warning("this process stood still: no report is fresh")
            if self.may_act():
                plan = self.core.plan(boottime())
                self._tell(plan)
                for command in plan.commands:
                    group.create_task(self._perform(command))
            await asyncio.sleep(GATHER)

    async def _perform(self, command: Command) -> None:
        async with self._places:
            try:
                is_done = await self._send(command)
            except (NotLeading, ApiError, Unreachable, ValueError) as error:
                found = failure(error)
                self.core.failed(
                    command, boottime(), is_conflict=found.is_conflict, is_lost=found.is_lost
                )
                what, name = type(command).__name__, command.name
                is_news = not found.is_conflict and sparing.allows("pool", what, name)
                level = logger.warning if is_news else logger.debug
                level("a write failed", extra=fields(what=what, name=name, why=found.why))
            else:
                if is_done:
                    self.core.performed(command)
                    self._tell_done(command)
        self._moved.set()

    async def _send(self, command: Command) -> bool:
        """Whether it was sent: `dead` is not where it is not right any more."""
        if not isinstance(command, TaintNode):
            await self.writes.write(command)
            return True
        if command.marks_dead:
            nodes = await self.writes.nodes_of(pool_of(command.node))
            if not self.core.is_confirmed(command, nodes, boottime()):
                self.core.failed(command, boottime(), is_conflict=True, is_lost=False)
                return False
        node = await self.writes.taint(command)
        self.core.node_answered(node, boottime())
        return True

    def _tell(self, plan: PoolPlan) -> None:
        for each in plan.undecided:
            reason = KEPT if each.is_wanted else CANNOT_TELL
            self.events.tell(each.node, reason, f"the node is kept: {each.why}")
        for node in plan.refused:
            self.events.tell(node, POOL_FULL, pool_full(node.pool).message)
        for node in plan.bad_names:
            message = f"{node.pool!r:.80} is no name of a pool: lower-case letters, digits and -"
            self.events.tell(node, INVALID_POOL_NAME, message)

    def _tell_done(self, command: Command) -> None:
        if isinstance(command, TaintNode):
            self._tell_taints(command)
        elif isinstance(command, SetConditions):
            self._tell_conditions(command)

    def _tell_taints(self, command: TaintNode) -> None:
        node, opinion = command.node, command.opinion
        if opinion is not None:
            message = (
                f"{opinion.votes} of {opinion.voters} other members of the pool that are Ready say "
                "that it is gone: its pods go after their seconds"
            )
            self.events.tell(node, DEAD, message)
        elif node.is_dead and not any(it.get("key") == DEAD_KEY for it in command.taints):
            why = f"its annotation {KEEP_PODS} keeps its pods" if node.keeps_pods else SPEAKS
            self.events.tell(node, NOT_DEAD, why, is_warning=False)

    def _tell_conditions(self, command: SetConditions) -> None:
        node = self.core.node(command.name)
        begun = [it for it in command.conditions if it.type == NOT_REACHABLE and not it.since]
        if node is not None:
            for each in begun:
                self.events.tell(node, NOT_REACHABLE, each.message)
