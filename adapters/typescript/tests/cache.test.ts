/** The cache of the controller. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Cache, type Source } from "../src/controller/cache.js";
import { createLog } from "../src/controller/log.js";
import { ApiError, CancelledError, parseObject, REPLICA_SET, type KubeObject, type Page, type WatchEvent } from "../src/index.js";
import { FakeClock } from "./fake_clock.js";

function replicaSet(name: string, version: number, { uid = name, owner = "u" } = {}): KubeObject {
  const ownerReferences = owner ? [{ kind: "Deployment", name: "web", uid: owner, controller: true }] : [];
  const metadata = { name, namespace: "shop", uid, resourceVersion: String(version), ownerReferences };
  return parseObject(JSON.stringify({ metadata }), REPLICA_SET);
}

/** An API server with prepared lists and watches. The last watch continues until it is aborted. */
class Prepared implements Source {
  readonly lists: Page[];
  readonly watches: (WatchEvent[] | ApiError)[];
  readonly asked: string[] = [];

  constructor(lists: Page[], watches: (WatchEvent[] | ApiError)[]) {
    this.lists = lists;
    this.watches = watches;
  }

  list(): Promise<Page> {
    const page = this.lists.shift();
    return page ? Promise.resolve(page) : Promise.reject(new ApiError("list", 0, "no more"));
  }

  async *watch(_kind: unknown, { version, signal }: { version: string; signal?: AbortSignal | undefined }) {
    this.asked.push(version);
    const events = this.watches.shift();
    if (events instanceof ApiError) throw events;
    yield* events ?? [];
    if (!events) await new Promise<void>((resolve) => signal?.addEventListener("abort", () => { resolve(); }));
  }
}

function page(version: string, ...objects: KubeObject[]): Page {
  return { objects, version, next: "" };
}

function event(type: string, object: KubeObject | undefined, version: number): WatchEvent {
  return { type, object, version: String(version) };
}

function cacheOf(source: Source, clock: FakeClock): { cache: Cache; changes: string[]; lines: string[] } {
  const changes: string[] = [];
  const lines: string[] = [];
  const changed = (before?: KubeObject, after?: KubeObject): void => {
    changes.push(`${before?.uid ?? "-"} ${after?.uid ?? "-"}`);
  };
  const log = createLog("info", (line) => lines.push(line));
  return { cache: new Cache({ kind: REPLICA_SET, source, clock, log, namespace: "shop", changed }), changes, lines };
}

test("a cache follows its watch, and lists again when it is too old", async () => {
  const source = new Prepared(
    [page("10", replicaSet("a", 1), replicaSet("b", 2)), page("30", replicaSet("b", 2, { uid: "other" }))],
    [
      [
        event("MODIFIED", replicaSet("a", 11, { owner: "" }), 11),
        event("BOOKMARK", undefined, 12),
        event("DELETED", replicaSet("b", 13), 13),
      ],
      [event("ADDED", replicaSet("c", 14), 14), event("MODIFIED", replicaSet("a", 5), 15)],
      new ApiError("watch", 410, "too old"),
    ],
  );
  const clock = new FakeClock();
  const { cache, changes } = cacheOf(source, clock);
  const stop = new AbortController();
  await cache.start(stop.signal);
  await clock.advance(10_000);
  assert.deepEqual(source.asked, ["10", "13", "15", "30"]);
  assert.deepEqual(Array.from(cache.all(), (it) => it.uid), ["other"]);
  assert.deepEqual(cache.controlledBy("shop", "u"), [cache.get({ namespace: "shop", name: "b" })]);
  assert.deepEqual(cache.controlledBy("shop", undefined), []);
  assert.deepEqual(changes, ["- a", "- b", "a a", "b -", "- c", "- other", "a -", "c -"]);
  stop.abort();
  await cache.ended();
});

test("an API server that fails, or ends watches at once, is asked less and less often", async () => {
  const failures = Array.from({ length: 20 }, (_, i) => (i % 2 ? [] : new ApiError("watch", 500, "away")));
  const source = new Prepared([page("10")], failures);
  const clock = new FakeClock();
  const { cache, lines } = cacheOf(source, clock);
  const stop = new AbortController();
  await cache.start(stop.signal);
  await clock.advance(10_000);
  // 100 ms, doubled each time up to 5 s, and up to as long again.
  assert.ok(source.asked.length >= 6 && source.asked.length <= 8, String(source.asked.length));
  assert.match(lines.join(""), /away.*ended at once/s);
  stop.abort();
  await cache.ended();
});

test("waiting for a cache ends when it stops", async () => {
  const clock = new FakeClock();
  const { cache } = cacheOf(new Prepared([], []), clock);
  const stop = new AbortController();
  const started = cache.start(stop.signal);
  await clock.advance(1_000);
  stop.abort();
  await assert.rejects(started, CancelledError);
  await cache.ended();
});
