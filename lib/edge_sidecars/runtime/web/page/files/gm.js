// Who leads, the LCs that are connected, and jobs by their stage.
import { age, countdown, el, facts, headline, section, spaced, svg, table } from "./shell.js";

function jobs(counts) {
  if (!counts.length) return el("p", {}, "none");
  const most = Math.max(...counts.map((it) => it.objects), 1);
  return table("jobs by stage", ["kind", "stage", "jobs", "share"], counts.map((it) => [it.kind, it.state || "none yet", it.objects,
    svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", height: 8, "aria-hidden": "true" },
      svg("rect", { class: "fill-own", width: (it.objects / most) * 100, height: 8 }))]));
}

// Any value of a row's fields.
const shown = (value) => (value === true ? "yes" : value === false ? "no" : value === null ? "-" : Array.isArray(value) ? value.join(", ") : value);
const titles = (rows) => [...new Set(rows.flatMap((it) => Object.keys(it)))];
function each(label, rows) {
  if (!rows.length) return el("p", {}, "none");
  const names = titles(rows);
  return table(label, names.map(spaced), rows.map((it) => names.map((name) => (name.endsWith("econds") ? age(it[name]) : shown(it[name])))));
}

export function draw(status, wall, memory) {
  const { leader, shards, backlog, reports } = status;
  const full = memory.full = Math.max(memory.full ?? 1, leader.remainingSeconds, shards?.remainingSeconds ?? 0);
  const who = shards ? `This GM owns ${shards.owned.length} of ${shards.shards} shards`
    : leader.isLeader ? "This GM leads" : leader.holder ? `${leader.holder} leads` : "No GM leads";
  const proven = shards ? shards.remainingSeconds : leader.remainingSeconds;
  return [
    headline(who, leader.isLeader || leader.holder || shards?.owned.length ? "good" : "bad"),
    section("This GM", proven ? countdown(shards ? "Its shards are proven for" : "The lead is proven for", proven, full) : null, facts([
      ["ready", status.isReady ? "yes" : `no: ${status.lack}`],
      ["link", status.isLinkUp ? "up" : "down"],
      ["mode", status.mode],
      ["holder", leader.holder],
      ["term", leader.term],
      ["running for", age(status.uptimeSeconds)],
      ["version", status.version],
    ])),
    shards ? section("Shards", el("p", {}, shards.reason), shards.unowned ? el("p", { class: "bad" }, `${shards.unowned} shards have no owner`) : null, each("members", shards.members)) : null,
    section("Jobs by stage", jobs(status.jobs)),
    section("Local Controllers", each("local controllers", status.nodes)),
    section("Waiting", facts([
      ["objects", `${backlog.objects}, and ${backlog.retries} to be tried again`],
      ["events", backlog.events],
      ["reports", `${backlog.reports}, and ${backlog.nodeReports} of nodes; ${backlog.heldBack} held back`],
      ["stored", reports.stored],
      ["refused", reports.refused ? `${reports.refused}: ${reports.lastRefusal}` : 0],
    ])),
    section("Collections", each("collections", status.collections)),
  ].filter((it) => it !== null);
}
