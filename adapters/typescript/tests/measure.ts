/** Prints what a plan costs with the planner in the process, and with the service at the URL given: tests/local/measure.py. */

import { readFile } from "node:fs/promises";

import { Planner } from "../src/index.js";
import { timestampNow } from "../src/v1.js";

const ROUNDS = 500;
const CALLS = 5;

const [url = "", example = ""] = process.argv.slice(2);
const objects = [await readFile(example, "utf8")];
const snapshot = { objects, replicaSetsComplete: true, podsComplete: true, now: timestampNow() };

async function plan(planner: Planner): Promise<void> {
  const { steps } = await planner.planRollout({ snapshot });
  if (steps.length === 0) throw new Error("no steps");
}

/** The microseconds of a plan in the best round. Rounds are short, so that other load does not affect all of them. */
async function best(planner: Planner): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const begin = performance.now();
    for (let call = 0; call < CALLS; call++) await plan(planner);
    times.push(((performance.now() - begin) / CALLS) * 1e3);
  }
  return Math.min(...times);
}

const memory = process.memoryUsage().rss;
const begin = performance.now();
const local = Planner.local();
await plan(local);
const startMs = performance.now() - begin;
const localUs = await best(local);
const memoryMiB = (process.memoryUsage().rss - memory) / 2 ** 20;
const service = Planner.grpc(url);
const serviceUs = await best(service);
service.close();
console.log(JSON.stringify({ startMs, localUs, serviceUs, memoryMiB }));
