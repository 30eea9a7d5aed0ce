/** Requests to the API server. */

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { Api, ApiError, CancelledError, DEPLOYMENT, REPLICA_SET } from "../src/index.js";
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
  assert.match(new TextDecoder().decode(found[0]?.json), /"big":9007199254740993/);
  const path = "/apis/apps/v1/namespaces/shop/replicasets?limit=500";
  assert.deepEqual(urls, [path, `${path}&continue=n%2B`]);
  api.close();
});

test("an object that does not exist is told from a path that does not", async (context) => {
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

test("a request can be cancelled while it is under way", async (context) => {
  const abort = new AbortController();
  const url = await serve(context, () => {
    abort.abort();
  });
  const api = new Api({ server: url });
  await assert.rejects(api.request({ method: "GET", path: "/x" }, abort.signal), CancelledError);
  await assert.rejects(api.request({ method: "GET", path: "/x" }, abort.signal), CancelledError);
  api.close();
});
