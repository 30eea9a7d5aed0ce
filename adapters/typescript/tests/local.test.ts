/** The planner in this process gives the answers of the service, byte for byte, and survives whatever happens in it. */

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import type { MessageInitShape } from "@bufbuild/protobuf";

import { CancelledError, Planner } from "../src/index.js";
import { timestampNow, type SnapshotSchema } from "../src/v1.js";
import { Engine, Trap, type Module } from "../src/wasm.js";

declare const WebAssembly: { compile(bytes: Uint8Array): Promise<Module> };

const HERE = join(import.meta.dirname, "../..");
const ROOT = join(HERE, "../..");
// Written by tests/local/corpus.py.
const CORPUS = join(ROOT, "target/local/corpus.jsonl");
const UNLIMITED = { checks: 2n ** 64n - 1n };

const module = await WebAssembly.compile(await readFile(join(HERE, "rollplan.wasm")));

/** A snapshot of a rollout in progress. */
async function snapshot(): Promise<MessageInitShape<typeof SnapshotSchema>> {
  const objects = [await readFile(join(ROOT, "examples/mid-rollout.json"), "utf8")];
  return { objects, replicaSetsComplete: true, podsComplete: true, now: timestampNow() };
}

interface Line {
  readonly method: string;
  readonly json: boolean;
  readonly request: string;
  readonly code: number;
  readonly answer?: string;
}

test("the module gives the bytes of the service for every request of the corpus", async () => {
  const engine = new Engine(module);
  let count = 0;
  const codes = new Set<number>();
  for await (const text of createInterface({ input: createReadStream(CORPUS) })) {
    const { method, json, request, code, answer } = JSON.parse(text) as Line;
    const answered = engine.call(method, Buffer.from(request, "base64"), { json, ...UNLIMITED });
    const about = `line ${++count}, ${method}`;
    assert.equal(answered.code, code, about);
    codes.add(code);
    if (answer !== undefined) assert.ok(Buffer.from(answer, "base64").equals(answered.bytes), about);
  }
  assert.ok(count > 3_000, String(count));
  // Responses, invalid arguments, exceeded limits and refused rollbacks.
  assert.deepEqual([...codes].sort((a, b) => a - b), [0, 3, 8, 9]);
});

test("an unknown method is unimplemented", () => {
  const { code, bytes } = new Engine(module).call("Guess", new Uint8Array(), UNLIMITED);
  assert.equal(code, 12);
  assert.match(Buffer.from(bytes).toString(), /unknown method "Guess".*UNKNOWN_METHOD/s);
});

test("memory that a large request took is given back", async () => {
  const engine = new Engine(module);
  const request = Buffer.from(JSON.stringify({ snapshot: { ...(await snapshot()), now: "2026-11-20T23:27:30Z" } }));
  engine.call("PlanRollout", request, { json: true, ...UNLIMITED });
  assert.ok(engine.memoryBytes > 0 && engine.memoryBytes < 16 << 20, String(engine.memoryBytes));
  engine.call("PlanRollout", Buffer.alloc(100 << 20), UNLIMITED);
  assert.equal(engine.memoryBytes, 0);
});

test("a request of more than 16 MiB exceeds a limit", async () => {
  const planner = Planner.local();
  const objects = ["a".repeat(16 << 20)];
  const expected = { code: "resource_exhausted", reason: "REQUEST_TOO_LARGE", retryable: false };
  await assert.rejects(planner.planRollout({ snapshot: { objects } }), expected);
  assert.equal((await planner.planRollout({ snapshot: await snapshot() })).steps.length > 0, true);
});

test("a panic is an error, and the next call gets another instance", async () => {
  const engine = new Engine(module);
  // No allocation can have this length: the module panics.
  const endless = { length: 2 ** 31 } as Uint8Array;
  assert.throws(() => engine.call("PlanRollout", endless, UNLIMITED), Trap);
  assert.equal(engine.memoryBytes, 0);
  const request = Buffer.from(JSON.stringify({ snapshot: { ...(await snapshot()), now: "2026-11-20T23:27:30Z" } }));
  assert.equal(engine.call("PlanRollout", request, { json: true, ...UNLIMITED }).code, 0);
});

test("a budget ends a call, always the same one", async () => {
  const request = { snapshot: await snapshot(), seed: 7n };
  const limited = Planner.local({ checksMax: 1_000n });
  const expected = { code: "deadline_exceeded", reason: "DEADLINE_EXCEEDED", retryable: false };
  await assert.rejects(limited.forecastRollout(request), expected);
  assert.ok((await limited.planRollout(request)).steps.length > 0);
  assert.ok((await Planner.local().forecastRollout(request)).expected);
});

test("errors have a reason and metadata, without an address", async () => {
  await assert.rejects(Planner.local().planRollout({}), {
    code: "invalid_argument",
    reason: "INVALID_REQUEST",
    message: /^invalid_argument: .*\(INVALID_REQUEST\)$/,
  });
});

test("a cancelled call is not made, and a planner may be used after it was closed", async () => {
  const planner = Planner.local();
  await planner.check(1_000);
  await assert.rejects(planner.planRollout({}, { signal: AbortSignal.abort() }), CancelledError);
  planner.close();
  await planner.check(1_000);
});
