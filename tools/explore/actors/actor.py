"""An elector of ours in an exploration: a core, its clock, its link, and the process around it.

The shell does what the real one does: performs commands, gives each request a hard limit, reports
each once, and has one watch. It acts at the steps of the world only; between two steps nothing
happens but that time passes, which ends the validity of what a main was told.

Messages take no time unless a fault makes them: then they are lost on the way there or back, or
arrive some steps later, also at a server that was restored, or from a process that has died.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tools.explore.actors.moment import Moment
from tools.explore.clone import clone
from tools.explore.store import Answer, Change, Store

WALL = 1.7e9
# So many rounds of requests in a row, each answered at once, are a loop.
AT_ONCE = 20


class Broken(Exception):
    """A promise does not hold; the text says which, of whom and when."""


class Picks(Protocol):
    """Who decides what goes otherwise."""

    budget: int
    colliding: set[str]

    def order(self, names: Any) -> Any: ...

    def pick(self, options: Any, *, who: str, cost: int = 1) -> int: ...


@dataclass(frozen=True)
class Pace:
    """The lengths of faults in steps, and the seconds of a step."""

    step: float
    crash: tuple[int, ...] = (1, 5)
    freeze: tuple[int, ...] = (1, 2, 5)
    cut: tuple[int, ...] = (2, 5)
    late_request: tuple[int, ...] = (1, 2, 4)
    late_answer: tuple[int, ...] = (1,)
    late_events: tuple[int, ...] = (1, 2, 5)
    # Whether messages are lost, and watches end or fall silent.
    is_lossy: bool = True
    drain: int = 3
    late_confirmation: int = 2
    out: int = 2

    def fates(self) -> tuple[tuple[str, int], ...]:
        return (
            ("arrives", 0),
            *([("is lost on its way there", 0)] if self.is_lossy else ()),
            *([("is answered, which is lost", 0)] if self.is_lossy else ()),
            *((f"arrives {n} steps late", n) for n in self.late_request),
            *((f"is answered {n} steps late", n) for n in self.late_answer),
        )


class Mail(NamedTuple):
    """Under way until a step. `answer` None: to the server."""

    due: int
    generation: int
    command: Any
    answer: Answer | None


class Watch(NamedTuple):
    """`events` have not been delivered. `silent`: the connection is dead, and nobody says so."""

    id: int
    events: tuple[Change, ...] = ()
    held_until: int = 0
    silent: bool = False


@dataclass
class World:
    """What an actor sees while it acts: the store, the step, and who decides."""

    store: Store
    step: int
    time: float
    picks: Picks
    pace: Pace
    # Up to which version all watches were told.
    told: int = 0
    # Which Lease was asked for, by whom, and whether to write it; None: nobody looks.
    asked: list[tuple[str, str, bool]] | None = None


class Actor:
    """Copied lazily: `copy` shares the core until `touch`."""

    kind = ""

    def __init__(self, name: str, rate: float) -> None:
        self.name = name
        self.rate = rate
        self.generation = 0
        self.core: Any = None
        self._owns_core = True
        self.is_up = False
        self.starts_at = 0
        self.frozen_until = 0
        self.cut_until = 0
        self.mail: tuple[Mail, ...] = ()
        # By `key` of the command: when its time is over, by the own clock.
        self.open: dict[Any, tuple[Any, Moment]] = {}
        self.inbox: tuple[tuple[Any, Answer | None], ...] = ()
        self.watch: Watch | None = None
        # Until when its main works, in true time; and by a proof that a restore has taken back.
        self.works_until = -math.inf
        self.excused_until = -math.inf
        # It knows nothing of what came about before the store was put back.
        self.is_ignorant = False

    def copy(self) -> "Actor":
        new = self.__class__.__new__(self.__class__)
        new.__dict__.update(self.__dict__)
        new._owns_core = False
        return new

    def touch(self) -> Any:
        """The core, to be changed."""
        if not self._owns_core:
            self.core, self._owns_core = clone(self.core), True
            self.open = dict(self.open)
        return self.core

    @property
    def identity(self) -> str:
        return f"{self.name}_{self.generation}"

    def now(self, time: float) -> Moment:
        return Moment(round(time * self.rate, 9))

    # ── of the core, for the sub-classes ──

    def key(self, command: Any) -> Any:
        return command.id

    def start(self, world: World) -> None:
        raise NotImplementedError

    def advance(self, world: World) -> list[Any]:
        raise NotImplementedError

    def is_due(self, world: World) -> bool:
        raise NotImplementedError

    def serve(self, world: World, command: Any) -> Answer:
        raise NotImplementedError

    def report(self, now: Moment, command: Any, answer: Answer | None) -> None:
        raise NotImplementedError

    def deliver(self, now: Moment, watch_id: int, change: Change) -> None:
        raise NotImplementedError

    def end_watch(self, now: Moment, watch_id: int) -> None:
        raise NotImplementedError

    def opens_watch(self, command: Any) -> bool:
        raise NotImplementedError

    def is_watched(self, change: Change) -> bool:
        return True

    def listens(self, watch_id: int) -> bool:
        """Whether its core takes what this watch brings."""
        return True

    def floor(self) -> int:
        """The version that it may ask a watch from."""
        raise NotImplementedError

    def mind(self, world: World) -> None:
        """The main looks at what the core says now."""

    def writes(self, command: Any) -> bool:
        raise NotImplementedError

    def asks_for(self, command: Any) -> str:
        """The name of the Lease; "" for those of the label."""
        raise NotImplementedError

    def timeout(self) -> float:
        raise NotImplementedError

    # ── the process ──

    def crash(self, world: World, steps: int) -> None:
        self.is_up = False
        self.core, self._owns_core = None, True
        self.starts_at = world.step + steps
        self.frozen_until = 0
        self.open, self.inbox, self.watch = {}, (), None

    def begin(self, world: World) -> None:
        self.generation += 1
        self.is_up = True
        self.is_ignorant = world.store.history > 0
        self._owns_core = True
        self.open, self.inbox, self.watch = {}, (), None
        self.start(world)

    def leads(self, time: float) -> bool:
        raise NotImplementedError

    def works_by_rule(self, time: float) -> bool:
        """Its main works, or a 200 would be answered now, if only on waking."""
        return self.works_until > time

    def is_excused(self) -> bool:
        """It works by a write that was acknowledged, and is gone with the store that was replaced:
        who has not heard of it before cannot know of it (assumption 3)."""
        return self.works_until <= self.excused_until

    def restored(self, world: World) -> None:
        """The store was put back: what is under way may still arrive there."""
        watch = self.watch
        hears = watch is not None and not watch.silent and not watch.events
        # A core that heard nothing for long gives its watch up, and takes nothing from it.
        hears = hears and watch is not None and self.listens(watch.id)
        self.is_ignorant = not hears or world.step < max(self.frozen_until, self.cut_until)
        self.excused_until = self.works_until

    def pending(self, step: int) -> bool:
        raise NotImplementedError

    def is_frozen(self, step: int) -> bool:
        return self.is_up and step < self.frozen_until

    def wants_to_act(self, world: World) -> bool:
        if not self.is_up:
            return self.starts_at <= world.step
        return not self.is_frozen(world.step) and self.is_due(world)

    def strike(self, world: World) -> None:
        """A fault of the process, at the beginning of a step."""
        pace = world.pace
        if not self.is_up or self.is_frozen(world.step):
            return
        options = ["goes on"]
        options += [f"crashes for {n} steps" for n in pace.crash]
        options += [f"is cut off for {n} steps" for n in pace.cut]
        options += [f"freezes for {n} steps" for n in pace.freeze]
        self._strike(world, world.picks.pick(options, who=self.name) - 1)

    def _strike(self, world: World, fault: int) -> None:
        crash, cut, freeze = world.pace.crash, world.pace.cut, world.pace.freeze
        if fault < 0:
            return
        if fault < len(crash):
            self.crash(world, crash[fault])
        elif fault < len(crash) + len(cut):
            # What it sends is lost; what its watch has to bring comes when the link is back.
            self.cut_until = world.step + cut[fault - len(crash)]
        else:
            self.frozen_until = world.step + freeze[fault - len(crash) - len(cut)]

    def arrive(self, world: World) -> bool:
        """Late messages that arrive in this step; True if some did."""
        due = [it for it in self.mail if it.due <= world.step]
        if not due:
            return False
        self.mail = tuple(it for it in self.mail if it.due > world.step)
        for mail in due:
            answer = mail.answer or self.serve(world, mail.command)
            if mail.generation == self.generation and self.is_up:
                self._answered(world, mail.command, answer)
        return True

    def _answered(self, world: World, command: Any, answer: Answer | None) -> None:
        if self.key(command) not in self.open:
            return  # its time was over
        self.touch()
        if self.is_frozen(world.step):
            self.inbox = (*self.inbox, (command, answer))
        else:
            del self.open[self.key(command)]
            self.report(self.now(world.time), command, answer)

    def run(self, world: World) -> bool:
        """Does all that is due now; False if that was nothing."""
        if not self.is_up:
            if self.starts_at > world.step:
                return False
            self.begin(world)
        if self.is_frozen(world.step):
            return False
        now = self.now(world.time)
        acted = self._empty_inbox(now) | self._expire(now) | self._hear(world)
        sent: list[str] = []
        for _ in range(AT_ONCE):
            if not self.is_due(world):
                break
            self.touch()
            commands = self.advance(world)
            sent += [command.__class__.__name__ for command in commands]
            acted = True
            if not commands:
                break
            for command in commands:
                self._send(world, command)
        else:
            often = ", ".join(f"{sent.count(it)} {it}" for it in sorted(set(sent)))
            raise Broken(f"{self.identity} does not come to rest: {often} at once")
        self.mind(world)
        return acted

    def _empty_inbox(self, now: Moment) -> bool:
        inbox, self.inbox = self.inbox, ()
        for command, answer in inbox:
            self.touch()
            if self.open.pop(self.key(command), None):
                self.report(now, command, answer)
        return bool(inbox)

    def _expire(self, now: Moment) -> bool:
        late = [(key, command) for key, (command, until) in self.open.items() if until <= now]
        for key, command in late:
            self.touch()
            del self.open[key]
            if self.opens_watch(command):
                self.end_watch(now, command.id)
            else:
                self.report(now, command, None)
        return bool(late)

    def _hear(self, world: World) -> bool:
        watch = self.watch
        if watch is None or not watch.events or watch.silent:
            return False
        if world.step < max(watch.held_until, self.cut_until):
            return False
        pace = world.pace
        options = ["delivers"]
        options += ["is silent from now on", "is ended"] if pace.is_lossy else []
        options += [f"is {n} steps late" for n in pace.late_events]
        answer = world.picks.pick(options, who=f"{self.name}'s watch")
        now = self.now(world.time)
        said = options[answer]
        if said == "is silent from now on":
            self.watch = watch._replace(silent=True, events=())
            return False
        if said == "is ended":
            self.touch()
            self.watch = None
            self.end_watch(now, watch.id)
            return True
        if answer:
            self.watch = watch._replace(
                held_until=world.step + pace.late_events[answer - len(options)]
            )
            return False
        self.watch = watch._replace(events=())
        self.touch()
        for change in watch.events:
            self.deliver(now, watch.id, change)
        return True

    def _send(self, world: World, command: Any) -> None:
        now = self.now(world.time)
        until = Moment(now + self.timeout())
        if world.asked is not None:
            world.asked.append((self.asks_for(command), self.name, self.writes(command)))
        if self.opens_watch(command):
            self._open_watch(world, command, until)
            return
        if world.step < self.cut_until:
            self.open[self.key(command)] = (command, until)
            return
        fates = world.pace.fates()
        who = f"{self.name}'s {command.__class__.__name__}"
        fate = world.picks.pick([text for text, _ in fates], who=who)
        self.open[self.key(command)] = (command, until)
        text, steps = fates[fate]
        if text == "is lost on its way there":
            return
        if fate == 0:
            self._answered(world, command, self.serve(world, command))
        elif text == "is answered, which is lost":
            self.serve(world, command)
        elif text.startswith("arrives"):
            mail = Mail(world.step + steps, self.generation, command, None)
            self.mail = (*self.mail, mail)
        else:
            answer = self.serve(world, command)
            mail = Mail(world.step + steps, self.generation, command, answer)
            self.mail = (*self.mail, mail)

    def _open_watch(self, world: World, command: Any, until: Moment) -> None:
        self.watch = None
        options = ["opens", "is lost on its way there"][: 1 + world.pace.is_lossy]
        who = f"{self.name}'s watch"
        is_lost = world.step < self.cut_until or world.picks.pick(options, who=who)
        if is_lost:
            self.open[self.key(command)] = (command, until)
            return
        now = self.now(world.time)
        if command.resource_version is None:
            events: tuple[Change, ...] | None = tuple(
                Change(lease, lease.resource_version, 0, False)
                for lease in world.store.leases.values()
            )
        else:
            events = world.store.since(command.resource_version)
        if events is None:
            self.end_watch(now, command.id)
            return
        self.watch = Watch(command.id, tuple(it for it in events if self.is_watched(it)))

    def changed(self, changes: tuple[Change, ...]) -> None:
        """The store has changed: its watch brings that, in a moment."""
        if self.watch is not None and not self.watch.silent:
            seen = tuple(it for it in changes if self.is_watched(it))
            self.watch = self.watch._replace(events=(*self.watch.events, *seen))

    def disconnect(self, world: World) -> None:
        """The server begins anew: what was under way is lost, the watch is ended."""
        self.mail = ()
        watch, self.watch = self.watch, None
        if watch is not None and self.is_up:
            self.touch()
            self.end_watch(self.now(world.time), watch.id)


def true_time(local: float, rate: float) -> float:
    return local / rate if local < math.inf else math.inf
