// Several components, one below the other, each as on its own page.
import { age, article, el, headline } from "./shell.js";
import * as elector from "./elector.js";
import * as gm from "./gm.js";
import * as lc from "./lc.js";
import * as pool from "./pool.js";
import * as relay from "./relay.js";

const COMPONENTS = { elector, gm, lc, pool, relay };

function shown(it, memory) {
  const known = COMPONENTS[it.component];
  if (!it.status) return headline(it.problem || "No answer yet", it.problem ? "bad" : "warn");
  const old = it.problem ? el("p", { class: "bad", role: "status" }, `Old: ${it.problem}; heard ${age(it.ageSeconds)} ago`) : null;
  try {
    return [old, known.draw(it.status, it.wallSeconds, memory)];
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return headline("Its document is of another release", "bad");
  }
}

export function draw({ components }, wall, memory) {
  return components.map((it) => {
    const name = it.component ? `${it.component} at ${it.address}` : it.address;
    const place = article(name, it.ageSeconds ?? 0, () => shown(it, memory[it.address] ??= {}));
    place.classList.toggle("old", Boolean(it.problem));
    return place;
  });
}
