/** The driver of tests/conformance for this package, with each transport. */

import { createInterface } from "node:readline";

import { fromJson, type JsonValue } from "@bufbuild/protobuf";

import {
  Api,
  CancelledError,
  parseObject,
  Planner,
  POD,
  REPLICA_SET,
  RollplanError,
  Rollouts,
  type Key,
  type Kind,
  type KubeObject,
  type Reader,
} from "../src/index.js";
import { durationMs, PlanCanaryRequestSchema, PlanOptionsSchema } from "../src/v1.js";

interface Start {
  readonly command: "start";
  readonly api: string;
  readonly planner: string;
  readonly protocol: string;
  readonly owner: { apiVersion: string; kind: string; resource: string; namespace: string; name: string };
  readonly options?: JsonValue;
  readonly statusIntervalMs?: number;
  readonly minIntervalMs?: number;
  readonly plannerTimeoutMs: number;
}

type Command =
  | Start
  | { command: "sync"; cache: string[] }
  | { command: "canary"; cache: string[]; request: JsonValue }
  | { command: "repeat"; syncs: number }
  | { command: "cancel" };

interface Reply {
  readonly outcome: string;
  readonly requeueAfterMs?: number | undefined;
  readonly notBeforeMs?: number;
  readonly error?: string;
}

/** The objects that the watches show. */
class Cache implements Reader {
  readonly #owner: Kind;
  #objects: KubeObject[] = [];

  constructor(owner: Kind) {
    this.#owner = owner;
  }

  replace(texts: string[]): void {
    this.#objects = texts.map((text) => {
      const read = parseObject(text, this.#owner);
      if (![this.#owner, REPLICA_SET, POD].some((it) => it.kind === read.kind)) throw new Error(`unknown kind ${read.kind}`);
      return read.kind === POD.kind ? parseObject(text, POD) : read;
    });
  }

  get(kind: Kind, key: Key): Promise<KubeObject | undefined> {
    const found = this.#objects.find(
      (it) => it.kind === kind.kind && it.key.namespace === key.namespace && it.key.name === key.name,
    );
    return Promise.resolve(found);
  }

  controlledBy(kind: Kind, _namespace: string, uids: ReadonlySet<string | undefined>): Promise<KubeObject[]> {
    return Promise.resolve(this.#objects.filter((it) => it.kind === kind.kind && uids.has(it.controller?.uid)));
  }
}

function connect(protocol: string, url: string, timeoutMs: number): Planner {
  switch (protocol) {
    case "grpc":
      return Planner.grpc(url, { timeoutMs });
    case "connect-proto":
      return Planner.connect(url, { timeoutMs });
    case "connect-json":
      return Planner.connect(url, { timeoutMs, json: true });
    case "fetch-proto":
      return Planner.fetch(url, { timeoutMs });
    case "fetch-json":
      return Planner.fetch(url, { timeoutMs, json: true });
    default:
      throw new Error(`unknown protocol ${protocol}`);
  }
}

/** One transcript. */
class Run {
  readonly #key: Key;
  readonly #cache: Cache;
  readonly #planner: Planner;
  readonly #api: Api;
  readonly #rollouts: Rollouts;
  #abort = new AbortController();
  #texts: string[] = [];

  constructor({ owner, options, protocol, planner, api, statusIntervalMs = 0, minIntervalMs = 0, plannerTimeoutMs }: Start) {
    const kind = { apiVersion: owner.apiVersion, kind: owner.kind, plural: owner.resource };
    this.#key = { namespace: owner.namespace, name: owner.name };
    this.#cache = new Cache(kind);
    this.#planner = connect(protocol, planner, plannerTimeoutMs);
    this.#api = new Api({ server: api });
    this.#rollouts = new Rollouts(this.#planner, this.#api, {
      kind,
      reader: this.#cache,
      options: fromJson(PlanOptionsSchema, options ?? {}),
      statusIntervalMs,
      minIntervalMs,
    });
  }

  cancel(): void {
    this.#abort.abort();
  }

  /** Forgets the owner, decodes the objects of the last sync again, and syncs. */
  async repeat(syncs: number): Promise<object> {
    const texts = this.#texts;
    for (let i = 0; i < syncs; i++) {
      await this.sync([]);
      const reply = await this.sync(texts);
      if (reply.outcome !== "done") throw new Error(JSON.stringify(reply));
    }
    return {};
  }

  async sync(cache: string[]): Promise<Reply> {
    this.#texts = cache;
    this.#cache.replace(cache);
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    try {
      const { exists, response, failures, notBeforeMs, requeueAfterMs } = await this.#rollouts.sync(this.#key, { signal });
      if (!exists) return { outcome: "missing" };
      if (failures.some((it) => it.step)) return { outcome: "again", notBeforeMs };
      return { outcome: "done", requeueAfterMs, ...(response && { notBeforeMs }) };
    } catch (error) {
      if (error instanceof CancelledError) return { outcome: "cancelled" };
      if (error instanceof RollplanError) return { outcome: "failed", error: error.message };
      throw error;
    }
  }

  async canary(cache: string[], request: JsonValue): Promise<Reply> {
    this.#cache.replace(cache);
    const { policy, command, verdicts } = fromJson(PlanCanaryRequestSchema, request);
    try {
      const { steps, requeueAfter } = await this.#rollouts.planCanary(this.#key, { policy, command, verdicts });
      const failures = await this.#rollouts.apply(steps);
      return { outcome: failures.length > 0 ? "again" : "done", requeueAfterMs: requeueAfter && durationMs(requeueAfter) };
    } catch (error) {
      if (error instanceof RollplanError) return { outcome: "failed", error: error.message };
      throw error;
    }
  }

  close(): void {
    this.#planner.close();
    this.#api.close();
  }
}

let run: Run | undefined;
let last: Promise<void> = Promise.resolve();

async function answer(command: Command): Promise<void> {
  let reply: object = {};
  if (command.command === "start") {
    run?.close();
    run = new Run(command);
  } else if (run && command.command === "sync") {
    reply = await run.sync(command.cache);
  } else if (run && command.command === "canary") {
    reply = await run.canary(command.cache, command.request);
  } else if (run && command.command === "repeat") {
    reply = await run.repeat(command.syncs);
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command;
  if (command.command === "cancel") run?.cancel();
  else last = last.then(() => answer(command));
}
await last;
run?.close();
