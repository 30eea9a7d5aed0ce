/** The work queue and the limiter of the controller. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { sleep } from "../src/controller/clock.js";
import { TokenBucket } from "../src/controller/limiter.js";
import { BACKOFF_MAX_MS, Queue } from "../src/controller/queue.js";
import { CancelledError, type Key } from "../src/index.js";
import { FakeClock, settle } from "./fake_clock.js";

const A: Key = { namespace: "shop", name: "a" };
const B: Key = { namespace: "shop", name: "b" };

test("a key is in the queue once", async () => {
  const queue = new Queue(new FakeClock());
  for (const key of [A, B, A]) queue.add(key);
  assert.deepEqual([await queue.get(), await queue.get(), queue.length], [A, B, 0]);
});

test("a key that changes while it is handled comes back afterwards", async () => {
  const queue = new Queue(new FakeClock());
  queue.add(A);
  assert.equal(await queue.get(), A);
  queue.add(A);
  queue.add(B);
  assert.equal(await queue.get(), B);
  queue.done(A);
  assert.deepEqual(await queue.get(), A);
});

test("a worker waits for the next key, and ends when the queue is closed", async () => {
  const queue = new Queue(new FakeClock());
  const first = queue.get();
  const second = queue.get();
  queue.add(A);
  assert.equal(await first, A);
  queue.close();
  assert.equal(await second, undefined);
  assert.equal(await queue.get(), undefined);
});

test("of several delays of a key, the shortest counts", async () => {
  const clock = new FakeClock();
  const queue = new Queue(clock);
  queue.addAfter(A, 500);
  queue.addAfter(A, 100);
  queue.addAfter(A, 300);
  queue.addAfter(B, 200);
  await clock.advance(99);
  assert.equal(queue.length, 0);
  await clock.advance(1);
  assert.equal(await queue.get(), A);
  await clock.advance(1_000);
  assert.deepEqual([await queue.get(), queue.length], [B, 0]);
});

test("the backoff doubles until it is reset", () => {
  const queue = new Queue(new FakeClock());
  assert.deepEqual([queue.backoff(A), queue.backoff(A), queue.backoff(A)], [5, 10, 20]);
  assert.equal(queue.backoff(B), 5);
  for (let i = 0; i < 2_000; i++) queue.backoff(A);
  assert.equal(queue.backoff(A), BACKOFF_MAX_MS);
  queue.forget(A);
  assert.equal(queue.backoff(A), 5);
});

test("requests beyond the burst are spread over time", async () => {
  const clock = new FakeClock();
  const bucket = new TokenBucket(clock, 10, 2);
  let granted = 0;
  for (let i = 0; i < 5; i++) void bucket.wait().then(() => granted++);
  const counts: number[] = [];
  for (let i = 0; i < 4; i++) {
    await settle();
    counts.push(granted);
    await clock.advance(100);
  }
  assert.deepEqual(counts, [2, 3, 4, 5]);
  await clock.advance(10_000);
  for (let i = 0; i < 5; i++) void bucket.wait().then(() => granted++);
  await settle();
  assert.equal(granted, 7);
});

test("sleeping ends when it is cancelled", async () => {
  const clock = new FakeClock();
  const abort = new AbortController();
  const sleeping = sleep(clock, 1_000, abort.signal);
  abort.abort();
  await assert.rejects(sleeping, CancelledError);
  await assert.rejects(sleep(clock, 1_000, abort.signal), CancelledError);
});
