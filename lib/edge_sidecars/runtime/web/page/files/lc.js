// The link to GM, what waits for it, the objects of this node and what is copied for them.
import { age, budget, bytes, el, facts, headline, section, table } from "./shell.js";

const counted = (names) => [...new Set(names)].sort().map((name) => `${names.filter((it) => it === name).length} ${name}`).join(", ");

function transfer({ url, done, size }) {
  return size ? budget(url, done, size, bytes) : el("p", { class: "figure" }, `${url}: ${bytes(done)}, of a size that is not known`);
}

export function draw(status) {
  const { link, store, reports, objects, transfers } = status;
  const peer = status.mode === "relay" ? "the relay" : "GM";
  return [
    headline(link.isUp ? `The link to ${peer} is up` : `The link to ${peer} is down`, link.isUp ? "good" : "bad"),
    section("This Local Controller", facts([
      ["node", status.node],
      ["mode", status.mode],
      ["peer", link.peer || "none yet"],
      [link.isUp ? "up for" : "down for", age(link.forSeconds)],
      ["why", link.problem],
      ["running for", age(status.uptimeSeconds)],
      ["version", status.version],
    ])),
    section("Reports for GM", facts([
      ["waiting", reports.waiting],
      ["the oldest for", reports.oldestSeconds === null ? null : age(reports.oldestSeconds)],
      ["of unknown jobs", reports.ofUnknownJobs || null],
      ["refused", reports.refused],
    ]), reports.refusals.length
      ? table("reports that GM refused", ["kind", "namespace", "name", "report", "why"], reports.refusals.map((it) => [it.kind, it.namespace, it.name, it.seq, it.reason]))
      : null),
    section("The store", facts([
      ["directory", store.directory],
      ["id", store.id],
      ["takes nothing", store.failure ? el("span", { class: "bad" }, store.failure) : null],
      ["failed writes", store.failures || null],
      ["set aside", store.note ? el("span", { class: "warn" }, store.note) : null],
    ])),
    section("Objects of this node", objects.length
      ? [el("p", {}, counted(objects.map((it) => it.kind))),
        table("objects", ["kind", "namespace", "name", "state"], objects.map((it) => [it.kind, it.namespace, it.name, it.note || "-"]))]
      : el("p", {}, "none")),
    transfers.length ? section("Files on their way", transfers.map(transfer)) : null,
  ].filter((it) => it !== null);
}
