// What every page has: it follows the component's status, and draws it anew at each document.
// Guarantee: values of documents become text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
// Milliseconds between two questions where no stream is to be had, and until one is tried again.
const POLL = 3000;
const RETRY = 30000;
// Milliseconds after which what is shown is called old.
const SILENCE = 5000;
const TICK = 100;

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...children.flat(3).filter((it) => it !== null && it !== undefined && it !== false)
    .map((it) => (it instanceof Node ? it : document.createTextNode(String(it)))));
  return node;
}

/** An element; children are nodes, texts, or lists of them. */
export const el = (name, attributes, ...children) => made(document.createElement(name), attributes, children);
/** The same of SVG. */
export const svg = (name, attributes, ...children) => made(document.createElementNS(SVG, name), attributes, children);

// Of the titles of sections: one below that of what they are in.
let level = 2;
// Seconds since what is drawn was so.
let lag = 0;

export const section = (title, ...children) => el("section", { "aria-label": title }, el(`h${level}`, {}, title), children);

/** A part of a page that is itself drawn of sections; what it shows was so `ago` seconds before. */
export function article(title, ago, drawn) {
  level += 1;
  lag = ago;
  try {
    return el("article", { "aria-label": title }, el(`h${level - 1}`, {}, title), drawn());
  } finally {
    level -= 1;
    lag = 0;
  }
}

export const headline = (text, kind) => el("p", { class: `headline ${kind ?? ""}`, role: "status", "aria-live": "polite" }, text);

/** `rows`: pairs; one whose value is null or "" is left out. */
export const facts = (rows) => el("dl", {}, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

/** A table that scrolls by itself where it is wider than the page. */
export function table(label, titles, rows) {
  const cell = (it) => el("td", { class: typeof it === "number" ? "number" : undefined }, it ?? "-");
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    el("table", {},
      el("thead", {}, el("tr", {}, titles.map((it) => el("th", { scope: "col" }, it)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}

/** How much of a budget is used. */
export function budget(label, used, limit, shown = String) {
  return [el("p", { class: "figure" }, `${label}: ${shown(used)} of ${shown(limit)}`),
    el("progress", { max: limit || 1, value: Math.min(used, limit), "aria-label": label })];
}

/** A bar that runs down by this page's monotonic clock, and says nothing else than how long. */
export function countdown(label, seconds, full) {
  const left = Math.max(seconds - lag, 0);
  return [el("p", { class: "figure", "data-until": left, "data-label": label }, ""),
    el("progress", { max: full || 1, "data-until": left, "aria-label": label })];
}

/** What the colours of a drawing mean. */
export const key = (entries) => el("ul", { class: "key" }, entries.map(([kind, text]) => el("li", {},
  svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: `fill-${kind}`, width: 10, height: 10 })), text)));

/** Spans of time on a strip: {from, to, kind, title} in seconds, from `begin` to `end`. */
export function strip(label, begin, end, spans) {
  const scale = 1000 / (end - begin || 1);
  const at = (moment) => Math.max(0, Math.min(1000, (moment - begin) * scale));
  return svg("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", role: "img", "aria-label": label, class: "strip" },
    svg("rect", { class: "fill-rest", width: 1000, height: 60 }),
    spans.map((it) => svg("rect", { class: `fill-${it.kind}`, x: at(it.from), y: 0, height: 60,
      width: Math.max(at(it.to) - at(it.from), 2) }, svg("title", {}, it.title))));
}

/** A field's name in words. */
export const spaced = (name) => name.replace(/Seconds$/, "").replace(/[A-Z]/g, (it) => ` ${it.toLowerCase()}`);

/** Two units at most. */
export function age(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "-";
  const whole = Math.max(Math.floor(seconds), 0);
  const units = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "m"], [whole % 60, "s"]];
  while (units.length > 1 && !units[0][0]) units.shift();
  return units.slice(0, 2).filter(([number, unit]) => number || unit === "s").map(([number, unit]) => `${number}${unit}`).join("") || "0s";
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let power = 0;
  while (count >= 1024 && power < units.length - 1) { count /= 1024; power += 1; }
  return `${power && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[power]}`;
}

/** Unix seconds of an RFC 3339 stamp; null for none. */
export function seconds(stamp) {
  const found = Date.parse(stamp ?? "");
  return Number.isNaN(found) ? null : found / 1000;
}

/** A stamp in this browser's zone. */
export function moment(stamp) {
  const at = seconds(stamp);
  return at === null ? (stamp ?? "-") : el("time", { datetime: stamp }, new Date(at * 1000).toLocaleString());
}

// Nodes that are the same stay: focus, scroll position and a reader's place are kept.
function patch(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) { old.replaceWith(now); return; }
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && !(name === "value" && now.hasAttribute("data-until"))) old.removeAttribute(name);
  for (const { name, value } of [...now.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (now.hasAttribute("data-until")) { old.endsAt = performance.now() + Number(now.dataset.until) * 1000; if (old.nodeName === "P") return; }
  const wanted = [...now.childNodes];
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
  wanted.forEach((it, place) => { if (place < old.childNodes.length) patch(old.childNodes[place], it); else old.append(it); });
}

function run() {
  for (const it of document.querySelectorAll("[data-until]")) {
    it.endsAt ??= performance.now() + Number(it.dataset.until) * 1000;
    const left = Math.max(it.endsAt - performance.now(), 0) / 1000;
    if (it.nodeName === "PROGRESS") it.value = left;
    else it.textContent = left > 0 ? `${it.dataset.label} ${left.toFixed(1)} s` : `${it.dataset.label}: no longer`;
  }
}

/** `draw(status, wall, memory)`: the children of the page; `wall`: Unix seconds by the component's
clock; `memory`: what it remembers from one document to the next. */
export function start(title, draw) {
  const page = document.getElementById("page");
  const connection = document.getElementById("connection");
  document.getElementById("title").textContent = title;
  let heard = performance.now();
  let source = null;
  let timer = null;
  const memory = {};

  function say(text, isLost) {
    if (connection.textContent !== text) connection.textContent = text;
    connection.classList.toggle("lost", isLost);
    page.classList.toggle("old", isLost);
  }
  function show(text, how) {
    const { status, wallSeconds } = JSON.parse(text);
    heard = performance.now();
    const drawn = el("main", { id: "page" }, draw(status, wallSeconds, memory));
    patch(page, drawn);
    run();
    say(how, false);
  }
  async function poll() {
    try {
      const answer = await fetch("status/events", { headers: { Accept: "application/json" }, cache: "no-store" });
      if (answer.ok) show(await answer.text(), "asked every 3 s");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
  function fallBack() {
    source?.close();
    source = null;
    poll();
    timer = setInterval(poll, POLL);
    setTimeout(follow, RETRY);
  }
  function follow() {
    clearInterval(timer);
    if (document.hidden || source) return;
    source = new EventSource("status/events");
    source.onmessage = (event) => show(event.data, "live");
    source.onerror = () => { if (source?.readyState === EventSource.CLOSED) fallBack(); };
  }
  // A browser has six connections to a server for all of its pages: a hidden page leaves its own.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; clearInterval(timer); } else { heard = performance.now(); follow(); }
  });
  setInterval(() => {
    run();
    if (!document.hidden && performance.now() - heard > SILENCE) say("no answer: what is shown is old", true);
  }, TICK);
  follow();
}
