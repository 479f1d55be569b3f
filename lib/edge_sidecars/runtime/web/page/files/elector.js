// Who leads, for how long that is proven, the terms before, and shards as a ring.
import { age, countdown, el, facts, headline, key, moment, section, seconds, start, strip, svg, table } from "./shell.js";

// The longest validity seen: what a full bar is.
let full = 1;
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

function draw(status, wall) {
  const { leader, shards } = status;
  const isKnown = leader.lastContactSeconds !== null;
  full = Math.max(full, leader.remainingSeconds, shards?.remainingSeconds ?? 0);
  const who = leader.holderPod ? `${leader.holderPod} leads` : isKnown ? "No pod leads" : "Who leads is not known";
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
    terms(status.history, wall),
    ring(shards),
  ].filter((it) => it !== null);
}

start("elector", draw);
