// The link's last day with its outages, the streams, what is kept against its budget, who reads.
import { age, budget, bytes, el, facts, headline, key, moment, section, seconds, spaced, strip, table } from "./shell.js";

const DAY = 86400;
const STATES = { up: ["The link is up", "good"], unauthorized: ["The relay's credentials are refused", "bad"],
  relayed: ["The upstream relay is cut off itself", "bad"], down: ["The link is down", "bad"] };

function lastDay(link, uptime, wall) {
  const spans = link.outages.map((it) => ({ from: seconds(it.began), to: seconds(it.began) + it.seconds, why: it.why ?? "" }));
  if (link.downSeconds !== null) spans.push({ from: wall - link.downSeconds, to: wall, why: link.cause ?? "" });
  const begin = wall - DAY;
  const shown = spans.filter((it) => it.to > begin);
  const known = Math.min(wall - uptime, ...spans.map((it) => it.from));
  const drawn = [{ from: known, to: wall, kind: "good", title: "up" },
    ...shown.map((it) => ({ ...it, kind: "bad", title: `down for ${age(it.to - it.from)}${it.why ? `: ${it.why}` : ""}` }))];
  const lost = shown.reduce((sum, it) => sum + it.to - Math.max(it.from, begin), 0);
  const rows = spans.toReversed().map((it) => [moment(new Date(it.from * 1000).toISOString()),
    it.to === wall ? "still" : age(it.to - it.from), it.why || "-"]);
  const label = shown.length ? `${shown.length} outages in the last 24 hours, ${age(lost)} in all` : "no outage in the last 24 hours";
  return section("The link's last 24 hours", strip(label, begin, wall, drawn), el("p", {}, label),
    key([["good", "up"], ["bad", "down"], ["rest", "this relay did not run, or does not know"]]),
    rows.length ? table("outages, the newest first", ["began", "lasted", "why"], rows) : null);
}

export function draw(status, wall) {
  const { link, memory, journal } = status;
  const [text, kind] = STATES[link.state];
  const isUnknown = link.state === "down" && link.downSeconds === null;
  const streams = status.streams.map((it) => [it.resource.replace(/\.$/, ""), it.namespace || "all",
    [it.labelSelector, it.fieldSelector].filter(Boolean).join(" & ") || "-",
    it.refusal ? `${it.state}: ${it.refusal}` : it.state, it.objects, bytes(it.bytes), age(it.ageSeconds), it.watchers]);
  return [
    headline(isUnknown ? "Whether the link is up is not known yet" : text, isUnknown ? "warn" : kind),
    section("The relay", facts([
      ["ready", status.isReady ? "yes" : `no: ${status.lack}`],
      ["upstream", link.server],
      ["through", link.via ? `the neighbour ${link.via}` : link.proxy],
      ["why down", link.cause],
      ["running for", age(status.uptimeSeconds)],
      ["kept in", journal.failure ? el("span", { class: "bad" }, journal.failure) : journal.directory ?? "memory"],
      ["note", journal.note],
      ["version", status.version],
    ])),
    lastDay(link, status.uptimeSeconds, wall),
    section("What is kept",
      budget("objects", status.objects, status.maxObjects),
      memory.limitBytes ? budget("memory of the streams", memory.usedBytes, memory.limitBytes, bytes) : null,
      memory.seenLimitBytes ? budget("objects read by name", memory.seenBytes, memory.seenLimitBytes, bytes) : null),
    section("Who reads",
      budget("watches", status.watchers, status.maxWatchers),
      status.listeners.length ? table("listeners", Object.keys(status.listeners[0]).map(spaced), status.listeners.map((it) => Object.values(it))) : null),
    section("Streams", status.streams.length
      ? table("streams", ["resource", "namespace", "selector", "state", "objects", "size", "age", "watches"], streams)
      : el("p", {}, "none")),
  ];
}
