// The mesh of a site, who lends its link to whom, what the members say of each other; or the
// controller's pools.
import { age, bytes, countdown, el, facts, headline, key, section, svg, table } from "./shell.js";

const RADIUS = 120;

function kindOf(verdict) {
  return { Alive: "good", Degraded: "warn", Silent: "bad" }[verdict] ?? "rest";
}

function mesh(status) {
  const { peers } = status;
  const spot = (place) => {
    const angle = (place / peers.length) * 2 * Math.PI - Math.PI / 2;
    return [170 + RADIUS * Math.cos(angle), 150 + RADIUS * Math.sin(angle)];
  };
  const lent = new Set(status.borrowers);
  const lines = peers.map((it, place) => {
    const [x, y] = spot(place);
    return svg("line", { class: `line-${kindOf(it.verdict)}`, "stroke-width": lent.has(it.node) || status.via === it.node ? 5 : 2, x1: 170, y1: 150, x2: x, y2: y });
  });
  const node = (x, y, name, kind) => [svg("circle", { class: `fill-${kind}`, cx: x, cy: y, r: 9 }, svg("title", {}, name)),
    svg("text", { x, y: y + 24, "text-anchor": "middle" }, name.length > 22 ? `${name.slice(0, 21)}…` : name)];
  const nodes = peers.map((it, place) => node(...spot(place), it.node, kindOf(it.verdict)));
  const label = `${status.node} and ${peers.length} peers: ${peers.map((it) => `${it.node} ${it.verdict ?? "never heard"}`).join(", ")}`;
  return svg("svg", { viewBox: "0 0 340 310", class: "mesh", role: "img", "aria-label": label }, lines, nodes, node(170, 150, status.node, "own"));
}

function member(status) {
  const isOff = !status.ownLink;
  const by = status.via ? `Reaches the cloud through ${status.via}` : "Is cut off from the cloud";
  return [
    headline(isOff ? by : "Reaches the cloud by its own link", isOff ? (status.via ? "warn" : "bad") : "good"),
    section("This member", facts([
      ["node", status.node],
      ["pool", status.pool],
      ["ready", status.isReady ? "yes" : `no: ${status.lack}`],
      ["role", status.role],
      ["hub", status.hub ?? "none"],
      ["link", status.link],
      ["lends", status.lends ? "its link, to who asks" : "nothing now"],
      ["kubelet", status.kubelet ? "answers" : "does not answer"],
      ["running for", age(status.uptimeSeconds)],
      ["version", status.version],
    ])),
    section("The mesh", status.peers.length ? mesh(status) : el("p", {}, "no peer"),
      key([["own", "this node"], ["good", "alive"], ["warn", "degraded"], ["bad", "silent"], ["rest", "never heard"]]),
      table("peers", ["node", "verdict", "for", "its link", "addresses"], status.peers.map((it) => [it.node, it.verdict ?? "never heard", age(it.seconds), it.link, it.addresses.join(", ")]))),
    section("Who lends to whom",
      status.via ? el("p", {}, `${status.via} lends its link to ${status.node}`) : null,
      status.borrowers.map((it) => el("p", {}, `${status.node} lends its link to ${it}`)),
      status.via || status.borrowers.length ? null : el("p", {}, "No link of this node is lent or borrowed."),
      el("p", { class: "faint" }, `${bytes(status.lentBytes)} passed since the start`)),
    section("Shared streams", facts([["shared by", `${status.streams.length} streams of this node`], ["readers", status.readers.join(", ") || "none"]])),
  ];
}

function controller(status, memory) {
  const { leader } = status;
  const full = memory.full = Math.max(memory.full ?? 1, leader.remainingSeconds);
  const names = (count) => (Array.isArray(count) ? count.join(", ") || "-" : count);
  return [
    headline(leader.isLeader ? "This controller leads" : leader.holder ? `${leader.holder} leads` : "No controller leads", leader.isLeader || leader.holder ? "good" : "bad"),
    section("This controller", leader.isLeader ? countdown("The lead is proven for", leader.remainingSeconds, full) : null, facts([
      ["ready", status.isReady ? "yes" : `no: ${status.lack}`],
      ["may write", leader.mayAct ? "yes" : "no"],
      ["term", leader.term],
      ["running for", age(status.uptimeSeconds)],
      ["version", status.version],
    ])),
    section("Pools", status.pools.length
      ? table("pools", ["pool", "members", "ready", "dead", "cut", "refused", "not reachable", "keeps pods of", "cannot tell"], status.pools.map((it) => [it.pool,
        ...[it.members, it.ready, it.dead, it.cut, it.refused, it.notReachable, it.keepPods].map(names), it.cannotTell.map((each) => `${each.node}: ${each.why}`).join("; ") || "-"]))
      : el("p", {}, "none")),
  ];
}

export const draw = (status, wall, memory) => (status.pools ? controller(status, memory) : member(status));
