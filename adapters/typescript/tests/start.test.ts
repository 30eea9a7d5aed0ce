/** The start of the controller, with a stopped clock. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { createLog } from "../src/controller/log.js";
import { ACCESS_TIMEOUT_MS, awaitAccess, NoAccessError } from "../src/controller/start.js";
import { Answer, CancelledError, type ApiRequest } from "../src/index.js";
import { PLANNED_DEPLOYMENT, REPLICA_SET } from "../src/objects.js";
import { FakeClock } from "./fake_clock.js";

/** An API server that answers lists with a status code for a time. */
class Starting {
  readonly clock = new FakeClock();
  readonly lists: string[] = [];
  readonly lines: string[] = [];
  readonly #end: number;
  result: unknown;
  endedAfterMs = 0;

  constructor(
    readonly code: number,
    ms: number,
  ) {
    this.#end = this.clock.now() + ms;
  }

  request({ path }: ApiRequest): Promise<Answer> {
    this.lists.push(path);
    const isUp = this.clock.now() >= this.#end;
    return Promise.resolve(isUp ? new Answer(200) : new Answer(this.code, Buffer.from('{"message":"no roles yet"}')));
  }

  /** Starts, and lets a minute pass. */
  async start(stop = new AbortController()): Promise<void> {
    const begin = this.clock.now();
    const log = createLog("info", (line) => this.lines.push(line));
    const options = { api: this, clock: this.clock, log, kinds: [PLANNED_DEPLOYMENT, REPLICA_SET], namespaces: ["a", "b"] };
    void awaitAccess(options, stop.signal)
      .then(() => "started", (error: unknown) => error)
      .then((result) => {
        this.result = result;
        this.endedAfterMs = this.clock.now() - begin;
      });
    await this.clock.advance(60_000);
  }
}

for (const code of [403, 503, 0]) {
  test(`a start waits for roles after the answer ${code}`, async () => {
    const server = new Starting(code, 20_000);
    await server.start();
    assert.equal(server.result, "started");
    assert.match(server.lines[0] ?? "", /no access to the API server yet, trying again in 500 ms: list planneddeployments: no roles yet/);
    // Every namespace has its own roles.
    assert.equal(server.lists.at(-1), "/apis/apps/v1/namespaces/b/replicasets");
  });
}

test("a start ends without permission", async () => {
  const server = new Starting(403, 3_600_000);
  await server.start();
  assert.ok(server.result instanceof NoAccessError);
  assert.equal(server.result.message, "no access to the API server after 30 s: list planneddeployments: no roles yet (403)");
  assert.ok(server.endedAfterMs > 20_000 && server.endedAfterMs <= ACCESS_TIMEOUT_MS, String(server.endedAfterMs));
});

test("a start ends at once without the kind, or if it is stopped", async () => {
  const server = new Starting(404, 3_600_000);
  await server.start();
  assert.match(String(server.result), /apply adapters\/config\/planneddeployment-crd\.yaml/);
  assert.equal(server.endedAfterMs, 0);
  const stop = new AbortController();
  stop.abort();
  const stopped = new Starting(403, 3_600_000);
  await stopped.start(stop);
  assert.ok(stopped.result instanceof CancelledError);
});
