/** Errors and retries of the client, which the corpus of tests/conformance covers for syncs only. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";

import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { CancelledError, Planner, PlannerError } from "../src/index.js";
import { RestartDecision, RolloutPlanner, timestampNow } from "../src/v1.js";
import { serve } from "./stand_in.js";

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64").replace(/=+$/, "");
}

const REQUEST = { snapshot: { replicaSetsComplete: true } };

/** Requests with a wrong value, by its path. */
const WRONG: readonly [string, unknown][] = [
  ["snapshot", { snapshot: "x" }],
  ["snapshot.objects", { snapshot: { objects: "{}" } }],
  ["snapshot.objects[1]", { snapshot: { objects: ["{}", { kind: "Deployment" }] } }],
  ["snapshot.objects[0]", { snapshot: { objects: ["\ud800"] } }],
  ["snapshot.target.name", { snapshot: { target: { name: 5 } } }],
  ["snapshot.replicaSetsComplete", { snapshot: { replicaSetsComplete: "true" } }],
  ["snapshot.now", { snapshot: { now: "2026-11-20T23:27:30Z" } }],
  ["snapshot.now", { snapshot: { now: { seconds: 10n ** 15n } } }],
  ["snapshot.answers[0].httpCode", { snapshot: { answers: [{ httpCode: 2 ** 31 }] } }],
  ["snapshot.answers[0].body", { snapshot: { answers: [{ body: "{}" }] } }],
  ["snapshot.answers[0].call.verb", { snapshot: { answers: [{ call: { verb: "VERB_GET" } }] } }],
];

for (const json of [false, true]) {
  const name = json ? "JSON" : "protobuf";

  test(`errors have a reason and metadata, with ${name}`, async (context) => {
    let calls = 0;
    const info = create(ErrorInfoSchema, { reason: "INVALID_REQUEST", domain: "d", metadata: { field: "snapshot" } });
    const url = await serve(context, (_, response) => {
      calls++;
      const details = [{ type: "google.rpc.ErrorInfo", value: base64(toBinary(ErrorInfoSchema, info)) }];
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: "invalid_argument", message: "m", details }));
    });
    await assert.rejects(Planner.fetch(url, { json }).planRollout(REQUEST), (error: PlannerError) => {
      assert.deepEqual([error.code, error.reason, error.metadata.field], ["invalid_argument", "INVALID_REQUEST", "snapshot"]);
      assert.equal(error.message, "invalid_argument: m (INVALID_REQUEST)");
      return true;
    });
    assert.equal(calls, 1);
  });

  test(`an overloaded service is called again after its RetryInfo, with ${name}`, async (context) => {
    const retry = create(RetryInfoSchema, { retryDelay: { seconds: 0n, nanos: 1_000_000 } });
    const times: number[] = [];
    const url = await serve(context, (request, response) => {
      times.push(performance.now());
      assert.equal(request.headers["connect-timeout-ms"], "5000");
      const details = [{ type: "google.rpc.RetryInfo", value: base64(toBinary(RetryInfoSchema, retry)) }];
      response.writeHead(429, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: "resource_exhausted", details }));
    });
    const planner = Planner.fetch(url, { json, timeoutMs: 5_000 });
    await assert.rejects(planner.planRollout(REQUEST), { code: "resource_exhausted", retryAfterMs: 1 });
    assert.equal(times.length, 3);
  });

  test(`an answer that cannot be decoded is an error, with ${name}`, async (context) => {
    const url = await serve(context, (_, response) => response.end("<html>"));
    await assert.rejects(Planner.fetch(url, { json }).planRollout(REQUEST), { code: "internal" });
  });
}

test("an overloaded service without a RetryInfo is not called again", async (context) => {
  let calls = 0;
  const url = await serve(context, (_, response) => {
    calls++;
    response.writeHead(429).end('{"code":"resource_exhausted"}');
  });
  await assert.rejects(Planner.fetch(url).planRollout(REQUEST), { code: "resource_exhausted" });
  assert.equal(calls, 1);
});

const CLIENTS = {
  grpc: (url: string, timeoutMs: number) => Planner.grpc(url, { timeoutMs }),
  connect: (url: string, timeoutMs: number) => Planner.connect(url, { timeoutMs }),
  fetch: (url: string, timeoutMs: number) => Planner.fetch(url, { timeoutMs }),
};

/** Listens until the test ends, and writes the same bytes on every connection that sends any. Returns HOST:PORT. */
async function listen(context: TestContext, answer: Buffer): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(answer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Calls the service, and checks that the error names the URL and the cause. */
async function assertUnreachable(connect: (url: string, timeoutMs: number) => Planner, url: string, cause: RegExp): Promise<void> {
  const planner = connect(url, 5_000);
  await assert.rejects(planner.planRollout(REQUEST), (error: PlannerError) => {
    assert.deepEqual([error.name, error.code, error.reason], ["PlannerError", "unavailable", ""]);
    assert.ok(error.message.startsWith(`unavailable: ${url}: `), error.message);
    assert.match(error.message, cause);
    return true;
  });
  planner.close();
}

for (const [name, connect] of Object.entries(CLIENTS)) {
  test(`an unreachable service is named with the cause, with ${name}`, async (context) => {
    // fetch refuses low ports.
    const free = createServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    const { port } = free.address() as AddressInfo;
    free.close();
    await once(free, "close");
    await assertUnreachable(connect, `http://127.0.0.1:${port}`, /ECONNREFUSED/);
    await assertUnreachable(connect, "http://no-such-host.invalid:50051", /ENOTFOUND|EAI_AGAIN/);
    const tlsOnly = await listen(context, Buffer.from("15030300020232", "hex")); // an alert
    await assertUnreachable(connect, `http://${tlsOnly}`, /perhaps because the server requires TLS/);
    const plain = await listen(context, Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await assertUnreachable(connect, `https://${plain}`, /the server does not use TLS/);
  });

  for (const address of ["127.0.0.1:50051", "localhost:50051", "dns:///rollplan", "", "http://", "http://127.0.0.1:65536"]) {
    test(`"${address}" is refused as the address of the service, with ${name}`, () => {
      assert.throws(() => connect(address, 5_000), (error: PlannerError) => {
        assert.equal(error.code, "invalid_argument");
        assert.match(error.message, /must be a URL such as "http:/);
        assert.ok(error.message.includes(JSON.stringify(address)), error.message);
        return true;
      });
    });
  }

  for (const [field, request] of WRONG) {
    test(`a wrong ${field} is an invalid argument, with ${name}`, async () => {
      const planner = connect("http://127.0.0.1:1", 5_000);
      const expected = (error: PlannerError): boolean =>
        error.code === "invalid_argument" && error.message.startsWith(`invalid_argument: ${field}: `);
      // @ts-expect-error: programs without types can send them
      await assert.rejects(planner.planRollout(request), expected);
      planner.close();
    });
  }

  test(`a cancelled call is not made, with ${name}`, async () => {
    const planner = connect("http://127.0.0.1:1", 5_000);
    await assert.rejects(planner.planRollout(REQUEST, { signal: AbortSignal.abort() }), CancelledError);
    planner.close();
  });
}

test("every method of the service can be called", () => {
  assert.ok(RolloutPlanner.methods.length > 0);
  assert.deepEqual(RolloutPlanner.methods.filter(({ localName }) => !(localName in Planner.prototype)), []);
});

test("64-bit integers may be numbers and strings", async (context) => {
  const url = await serve(context, (_, response) => response.end());
  const planner = Planner.fetch(url);
  for (const toRevision of [1n, 1, "1"] as bigint[]) await planner.rollback({ toRevision });
});

test("restarts are planned", async (context) => {
  const urls: string[] = [];
  const url = await serve(context, (request, response) => {
    urls.push(request.url);
    response.end('{"plans":[{"name":"web","decision":"RESTART_DECISION_RESTART"}]}');
  });
  const { plans } = await Planner.fetch(url, { json: true }).planRestarts({ objects: ["{}"], now: timestampNow() });
  assert.deepEqual(plans.map((it) => [it.name, it.decision]), [["web", RestartDecision.RESTART]]);
  assert.deepEqual(urls, ["/rollplan.v1.RolloutPlanner/PlanRestarts"]);
});

test("an error that the service did not report names the URL without the password", async (context) => {
  const url = await serve(context, (_, response) => response.writeHead(404).end("<html>"));
  const planner = Planner.connect("http://user:secret@127.0.0.1:1");
  await assert.rejects(planner.planRollout(REQUEST), (error: PlannerError) => !error.message.includes("secret"));
  planner.close();
  const message = `unimplemented: ${url}: HTTP 404, but not from the service`;
  await assert.rejects(Planner.fetch(`${url}/`).planRollout(REQUEST), { message });
});

test("an attempt has a deadline", async (context) => {
  const url = await serve(context, () => undefined);
  await assert.rejects(Planner.fetch(url, { timeoutMs: 30 }).planRollout(REQUEST), { code: "deadline_exceeded" });
});
