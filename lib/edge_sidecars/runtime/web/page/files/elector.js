// Who leads, for how long that is proven, who could, what is pending, the terms before, and shards
// as a ring.
import { age, countdown, el, facts, headline, key, moment, section, seconds, strip, svg, table } from "./shell.js";

const COLOURS = ["own", "good", "warn"];

const podOf = (holder) => (holder ?? "").split("_")[0];

function terms(history, wall) {
  if (!history?.length) return null;
  const spans = history.map((it, place) => ({
    from: seconds(it.from) ?? seconds(it.to) ?? wall,
    to: seconds(it.to) ?? wall,
    kind: COLOURS[place % COLOURS.length],
    title: `${podOf(it.holder)}${it.why ? `: ${it.why}` : ""}`,
  }));
  const begin = Math.min(...spans.map((it) => it.from));
  const rows = history.map((it) => [podOf(it.holder), moment(it.from), it.to ? moment(it.to) : "now",
    age((seconds(it.to) ?? wall) - seconds(it.from)), it.why || (it.to ? "not known" : ""), it.seen ? "seen" : "own"]).reverse();
  return section("Terms",
    strip(`${history.length} terms, the last of ${podOf(history.at(-1).holder)}`, begin, wall, spans),
    table("terms, the newest first", ["pod", "from", "to", "for", "why it ended", "known"], rows));
}

// How an elector, which reads no pods, knows a candidate.
const known = (it) => [it.own && "this pod", it.leads && "leads", it.named && "named by the switchover",
  it.ledUntil && ["led until ", moment(it.ledUntil)]].filter(Boolean).flatMap((each, place) => (place ? [", ", each] : [each]));

function candidates(found, lease) {
  if (!found?.length) return null;
  const yes = (value) => (value === null ? "not known here" : value ? "yes" : "no");
  return section("Candidates that this elector knows",
    table("candidates", ["pod", "known as", "eligible", "priority"],
      found.map((it) => [it.pod, el("span", {}, known(it)), yes(it.eligible), it.priority ?? "not known here"])),
    el("p", { class: "faint" }, `An elector reads no pods: kubectl elector status ${lease.name} -n ${lease.namespace} lists every candidate.`));
}

function pending(moves) {
  if (!moves) return null;
  const { switchover, hold, problem, asksInSeconds } = moves;
  const lines = [
    hold && el("p", { class: "warn" }, "A hold keeps every elector out until ", moment(hold.until), "."),
    switchover && el("p", { class: "warn" }, `A switchover to ${switchover.to || "any other pod"} is asked for, to begin by `, moment(switchover.until), "."),
    (asksInSeconds ?? null) !== null && el("p", { class: "warn" }, `This pod asks for the lead in ${age(asksInSeconds)}: its priority is ${moves.priority}, the leader's ${moves.leaderPriority}.`),
    problem && el("p", { class: "bad" }, `Not done: ${problem}`),
  ].filter(Boolean);
  return section("Pending", lines.length ? lines : el("p", {}, "Nothing is pending."));
}

function arc(number, of, kind, title) {
  const gap = of > 1 ? Math.min(0.02, 1 / of) : 0;
  const [a, b] = [number, number + 1].map((it) => (it / of) * 2 * Math.PI - Math.PI / 2);
  const [from, to] = [a + gap / 2, b - gap / 2];
  const large = to - from > Math.PI ? 1 : 0;
  const at = (radius, angle) => `${(100 + radius * Math.cos(angle)).toFixed(2)} ${(100 + radius * Math.sin(angle)).toFixed(2)}`;
  const path = of === 1
    ? "M100 5A95 95 0 1 1 99.9 5ZM100 35A65 65 0 1 0 100.1 35Z"
    : `M${at(95, from)}A95 95 0 ${large} 1 ${at(95, to)}L${at(65, to)}A65 65 0 ${large} 0 ${at(65, from)}Z`;
  return svg("path", { class: `fill-${kind}`, d: path }, svg("title", {}, title));
}

function ring(shards) {
  if (!shards) return null;
  const own = new Set(shards.owned.map((it) => it.shard));
  const leaving = new Set(shards.handingOver.map((it) => it.shard));
  const arcs = Array.from({ length: shards.shards }, (_, it) => {
    const [kind, whose] = own.has(it) ? ["own", "this pod's"] : leaving.has(it) ? ["warn", "handed over"] : ["rest", "not this pod's"];
    return arc(it, shards.shards, kind, `shard ${it}: ${whose}`);
  });
  const label = `${own.size} of ${shards.shards} shards are this pod's`;
  return section("Shards",
    svg("svg", { viewBox: "0 0 200 200", class: "ring", role: "img", "aria-label": label }, arcs,
      svg("text", { x: 100, y: 104, "text-anchor": "middle" }, `${own.size} of ${shards.shards}`)),
    key([["own", "this pod's"], ["warn", "handed over"], ["rest", "others', or no one's"]]),
    shards.unowned ? el("p", { class: "bad" }, `${shards.unowned} shards have no owner`) : null,
    el("p", {}, shards.reason),
    table("members", ["pod", "shards", "settled"], shards.members.map((it) => [it.pod, it.owned, it.settled ? "yes" : "no"])));
}

/** `memory.full`: the longest validity seen, which is a full bar. */
export function draw(status, wall, memory) {
  const { leader, shards } = status;
  const isKnown = leader.lastContactSeconds !== null;
  const full = memory.full = Math.max(memory.full ?? 1, leader.remainingSeconds, shards?.remainingSeconds ?? 0);
  const none = status.moves?.hold ? "No pod leads: a hold keeps every elector out" : "No pod leads";
  const who = leader.holderPod ? `${leader.holderPod} leads` : isKnown ? none : "Who leads is not known";
  const shown = leader.isLeader ? leader.remainingSeconds : null;
  return [
    headline(who, leader.holderPod ? "good" : "bad"),
    section("The lead",
      shown === null
        ? el("p", {}, leader.holderPod && isKnown ? `${leader.holderPod} proves its lead at its own elector; this one is ${leader.role}.` : `This elector is ${leader.role}.`)
        : countdown("This pod's lead is proven for", shown, full),
      facts([
        ["Lease", `${leader.lease.namespace}/${leader.lease.name}`],
        ["here", `${leader.role}: ${leader.reason}`],
        ["identity", leader.identity],
        ["holder", leader.holder],
        ["since", leader.acquireTime ? moment(leader.acquireTime) : null],
        ["transitions", leader.leaseTransitions],
        ["fencing token", leader.fencingToken],
        ["last contact", isKnown ? `${age(leader.lastContactSeconds)} ago` : "none yet"],
      ])),
    pending(status.moves),
    candidates(status.candidates, leader.lease),
    terms(status.history, wall),
    ring(shards),
  ].filter((it) => it !== null);
}
