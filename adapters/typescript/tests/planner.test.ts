/** Errors and retries of the client, which the corpus of tests/conformance covers for syncs only. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";

import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { CancelledError, Planner, PlannerError } from "../src/index.js";
import { serve } from "./stand_in.js";

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64").replace(/=+$/, "");
}

const REQUEST = { snapshot: { replicaSetsComplete: true } };

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

for (const [name, connect] of Object.entries(CLIENTS)) {
  test(`an unreachable service is unavailable, with ${name}`, async () => {
    const planner = connect("http://127.0.0.1:1", 5_000); // nothing listens on port 1
    await assert.rejects(planner.planRollout(REQUEST), { name: "PlannerError", code: "unavailable" });
    planner.close();
  });

  test(`a cancelled call is not made, with ${name}`, async () => {
    const planner = connect("http://127.0.0.1:1", 5_000);
    await assert.rejects(planner.planRollout(REQUEST, { signal: AbortSignal.abort() }), CancelledError);
    planner.close();
  });
}

test("an attempt has a deadline", async (context) => {
  const url = await serve(context, () => undefined);
  await assert.rejects(Planner.fetch(url, { timeoutMs: 30 }).planRollout(REQUEST), { code: "deadline_exceeded" });
});
