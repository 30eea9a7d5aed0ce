/** Requests to the API server. */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { Api, ApiError, CancelledError, DEPLOYMENT, REPLICA_SET, type WatchEvent } from "../src/index.js";
import { serve, type Received } from "./stand_in.js";

const KEY = { namespace: "shop", name: "web" };

function replicaSet(name: string, owner?: string): string {
  const owners = owner ? [{ controller: true, kind: "Deployment", name: "web", uid: owner }] : [];
  const metadata = { name, namespace: "shop", uid: name, resourceVersion: "1", ownerReferences: owners };
  return JSON.stringify({ metadata, spec: { big: 0 } }).replace('"big":0', '"big":9007199254740993');
}

async function apiOf(context: TestContext, url: string): Promise<Api> {
  const directory = await mkdtemp(join(tmpdir(), "rollplan-"));
  context.after(() => rm(directory, { recursive: true }));
  const config = join(directory, "config");
  const text = JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    clusters: [{ name: "c", cluster: { server: url } }],
    users: [{ name: "u", user: { token: "secret" } }],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  });
  await writeFile(config, text);
  const api = await Api.fromConfig(config);
  context.after(() => {
    api.close();
  });
  return api;
}

test("a kubeconfig has the server and the credentials", async (context) => {
  const requests: Received[] = [];
  const url = await serve(context, (request, response) => {
    requests.push(request);
    response.writeHead(201).end("{}");
  });
  const api = await apiOf(context, url);
  const sent = { method: "DELETE", path: "/x", query: "a=b%20c", contentType: "application/json", body: '"ä"' };
  const answer = await api.request(sent);
  assert.equal(answer.code, 201);
  const [request] = requests;
  assert.ok(request);
  assert.deepEqual([request.method, request.url, request.body], ["DELETE", "/x?a=b%20c", '"ä"']);
  assert.deepEqual([request.headers.authorization, request.headers["content-type"]], ["Bearer secret", "application/json"]);
});

test("a list is read page by page, and keeps its numbers", async (context) => {
  const urls: string[] = [];
  const url = await serve(context, (request, response) => {
    urls.push(request.url);
    const first = !request.url.includes("continue=");
    const items = first ? [replicaSet("a", "u1"), replicaSet("b")] : [replicaSet("c", "u2")];
    response.end(`{"metadata":{"resourceVersion":"5"${first ? ',"continue":"n+"' : ""}},"items":[${items.join(",")}]}`);
  });
  const api = new Api({ server: url });
  const found = await api.controlledBy(REPLICA_SET, "shop", new Set(["u1", undefined]));
  assert.deepEqual(found.map((it) => it.key.name), ["a", "b"]);
  assert.match(found[0]?.json ?? "", /"big":9007199254740993/);
  const path = "/apis/apps/v1/namespaces/shop/replicasets?limit=500";
  assert.deepEqual(urls, [path, `${path}&continue=n%2B`]);
  api.close();
});

test("missing objects are distinguished from missing paths", async (context) => {
  let body = '{"kind":"Status","reason":"NotFound"}';
  const url = await serve(context, (_, response) => response.writeHead(404).end(body));
  const api = new Api({ server: url });
  assert.equal(await api.get(DEPLOYMENT, KEY), undefined);
  body = "404 page not found";
  await assert.rejects(api.get(DEPLOYMENT, KEY), (error) => error instanceof ApiError && error.code === 404);
  api.close();
});

test("the page of a proxy is not an object", async (context) => {
  const url = await serve(context, (_, response) => response.end("<html>"));
  const api = new Api({ server: url });
  await assert.rejects(api.get(DEPLOYMENT, KEY), ApiError);
  await assert.rejects(api.list(REPLICA_SET), ApiError);
  api.close();
});

test("a lost answer has the code 0, and the request is not repeated", async (context) => {
  let requests = 0;
  const url = await serve(context, (_, response) => {
    requests++;
    response.destroy();
  });
  const api = new Api({ server: url });
  assert.equal((await api.request({ method: "POST", path: "/x" })).code, 0);
  assert.equal(requests, 1);
  api.close();
});

test("a request in progress can be cancelled", async (context) => {
  const abort = new AbortController();
  const url = await serve(context, () => {
    abort.abort();
  });
  const api = new Api({ server: url });
  await assert.rejects(api.request({ method: "GET", path: "/x" }, abort.signal), CancelledError);
  await assert.rejects(api.request({ method: "GET", path: "/x" }, abort.signal), CancelledError);
  api.close();
});

/** Follows a watch to its end. An event may abort it. */
async function follow(api: Api, signal?: AbortSignal, seen?: () => void): Promise<WatchEvent[]> {
  const events: WatchEvent[] = [];
  const options = { namespace: "shop", version: "7", seconds: 300, labelSelector: "a=b", signal };
  for await (const event of api.watch(REPLICA_SET, options)) {
    events.push(event);
    seen?.();
  }
  return events;
}

test("a watch gives events however they arrive, and ends with its connection", async (context) => {
  const big = replicaSet("ä").replace('"resourceVersion":"1"', '"resourceVersion":"8"');
  const lines = Buffer.from(
    `{"type":"MODIFIED","object":${big}}\n{"type":"DELETED","object":${big}}\n{"type":"ADDED","obj`,
  );
  const requests: Received[] = [];
  const url = await serve(context, (request, response) => {
    requests.push(request);
    const middle = lines.indexOf("ä") + 1; // within a character
    response.write(lines.subarray(0, middle));
    setImmediate(() => response.end(lines.subarray(middle)));
  });
  const events = await follow(await apiOf(context, url));
  assert.deepEqual(events.map(({ type, object }) => `${type} ${object.version}`), ["MODIFIED 8", "DELETED 8"]);
  assert.match(events[0]?.object.json ?? "", /"name":"ä".*"big":9007199254740993/);
  assert.match(requests[0]?.url ?? "", /\?watch=true&resourceVersion=7&labelSelector=a%3Db&timeoutSeconds=300$/);
});

test("a watch that fails says how", async (context) => {
  const answers: [number, string][] = [
    [200, '{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}\n'],
    [410, '{"kind":"Status","message":"expired"}'],
    [200, "<html>\n"],
  ];
  const url = await serve(context, (_, response) => {
    const [code, body] = answers.shift() ?? [500, ""];
    response.writeHead(code).end(body);
  });
  const api = await apiOf(context, url);
  for (const [code, message] of [[410, /watch replicasets: too old/], [410, /expired/], [200, /not valid JSON/]] as const) {
    await assert.rejects(follow(api), (error) => error instanceof ApiError && error.code === code && message.test(error.message));
  }
});

test("a watch ends when it is aborted, also before its answer", async (context) => {
  const abort = new AbortController();
  const url = await serve(context, (request, response) => {
    if (request.url.includes("early")) return;
    response.write(`{"type":"ADDED","object":${replicaSet("a")}}\n`);
  });
  const events = await follow(await apiOf(context, url), abort.signal, () => { abort.abort(); });
  assert.equal(events.length, 1);
  const early = new AbortController();
  const hanging = follow(await apiOf(context, `${url}/early`), early.signal);
  setImmediate(() => { early.abort(); });
  await assert.rejects(hanging, CancelledError);
});

test("a request has a timeout", async (context) => {
  const url = await serve(context, () => undefined);
  const answer = await (await apiOf(context, url)).request({ method: "GET", path: "/x", timeoutMs: 20 });
  assert.equal(answer.code, 0);
});

/** The environment of a user with this kubeconfig, or without one. */
async function homeOf(context: TestContext, kubeconfig?: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "rollplan-"));
  const before = { HOME: process.env.HOME, KUBECONFIG: process.env.KUBECONFIG };
  context.after(async () => {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    }
    await rm(home, { recursive: true });
  });
  process.env.HOME = home;
  process.env.KUBECONFIG = kubeconfig === undefined ? "" : join(home, "kubeconfig");
  if (kubeconfig) await writeFile(process.env.KUBECONFIG, kubeconfig);
  return process.env.KUBECONFIG;
}

test("a missing kubeconfig is named", async (context) => {
  await homeOf(context);
  await assert.rejects(Api.fromConfig(), (error) => {
    assert.ok(error instanceof ApiError);
    assert.match(error.message, /KUBECONFIG is not set, ~\/\.kube\/config does not exist, and this is not a pod/);
    return true;
  });
});

for (const text of ["", "{{{", "[]", "apiVersion: v1\nkind: Config\n"]) {
  test(`the kubeconfig ${JSON.stringify(text)} is named with the cause`, async (context) => {
    const file = await homeOf(context, text);
    const expected = (error: unknown): boolean =>
      error instanceof ApiError && error.message.startsWith(`read the kubeconfig ${file}: `) && !error.message.endsWith(": ");
    await assert.rejects(Api.fromConfig(), expected);
    await assert.rejects(Api.fromConfig(file), expected);
  });
}

for (const [server, cause] of Object.entries({
  "http://127.0.0.1:1": /ECONNREFUSED/,
  "https://127.0.0.1:1": /ECONNREFUSED/,
  "http://no-such-host.invalid": /ENOTFOUND|EAI_AGAIN/,
})) {
  test(`the API server ${server}, which does not answer, is named with the cause`, async (context) => {
    const api = await apiOf(context, server);
    const isNamed = (error: unknown): boolean =>
      error instanceof ApiError && error.message.includes(`: ${server}: `) && cause.test(error.message);
    await assert.rejects(api.get(DEPLOYMENT, KEY), isNamed);
    await assert.rejects(api.list(REPLICA_SET), isNamed);
    await assert.rejects(api.watch(REPLICA_SET, { version: "1", seconds: 1 }).next(), isNamed);
  });
}
