// An informer of @kubernetes/client-node on the ConfigMaps of a namespace, as its examples make it.
// What it prints says tools/harness/peers/other_informers.py.

import { createInterface } from "node:readline";
import * as k8s from "@kubernetes/client-node";

// Milliseconds; the examples of the client begin anew after five seconds.
const PAUSE = 500;
const [kubeconfig, namespace] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
// Over plain HTTP the client speaks only where it is told that it need not verify TLS.
config.clusters = config.clusters.map((it) => ({
  ...it,
  skipTLSVerify: it.server.startsWith("http:"),
}));
const core = config.makeApiClient(k8s.CoreV1Api);
const say = (line) => process.stdout.write(`${line}\n`);

const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
  core.listNamespacedConfigMap({ namespace }),
);
informer.on("add", (it) => say(`ADDED ${it.metadata.name}`));
informer.on("update", (it) => say(`MODIFIED ${it.metadata.name}`));
informer.on("delete", (it) => say(`DELETED ${it.metadata.name}`));

informer.on("error", (why) => {
  console.error(why);
  setTimeout(() => informer.start(), PAUSE);
});
await informer.start();

const answer = async (verb, name) => {
  if (verb === "get") {
    const found = await core.readNamespacedConfigMap({ name, namespace });
    return `GOT ${found.metadata.name}`;
  }
  const { items } = await core.listNamespacedConfigMap({ namespace });
  return `LISTED ${items.map((it) => it.metadata.name).sort()}`;
};
for await (const line of createInterface({ input: process.stdin })) {
  say(await answer(...line.split(" ")).catch((refused) => `REFUSED ${refused.code}`));
}
process.exit(0);
