#!/usr/bin/env node
/**
 * Applies a manifest, waits for the rollout, prints why it is stalled, and rolls back if the failure is certain.
 *
 *     node deploy.mts MANIFEST NAMESPACE DEPLOYMENT
 *
 * The manifest must contain only the Deployment, as YAML or JSON. The program requires Node.js 22.19 or later, which runs
 * TypeScript, the packages rollplan (adapters/typescript) and @kubernetes/client-node, and the service. Optional variables:
 * ROLLPLAN_SERVER, the URL of the service; TIMEOUT, how long to wait, in seconds (600); IMAGE_PULL, how long an image may be
 * missing, in seconds. The exit codes are those of `rollplan wait`: docs/reference/command.md.
 */

import { readFile } from "node:fs/promises";

import {
  Api,
  ApiError,
  DEPLOYMENT,
  NotFoundError,
  pathOf,
  Planner,
  RollplanError,
  Rollouts,
  StalledError,
  WaitTimeoutError,
  type FailureRules,
  type Key,
} from "rollplan";
import { durationFromMs, type RolloutReport } from "rollplan/v1";

const { ROLLPLAN_SERVER = "http://127.0.0.1:50051", TIMEOUT = "600", INTERVAL = "2", IMAGE_PULL } = process.env;

/** Prints a line whenever the numbers or the causes change. Messages also contain ages, which change all the time. */
function progress(): (report: RolloutReport) => void {
  let last = "";
  return ({ message, phase, counts, blockers }) => {
    const causes = blockers.map(({ reason, podCount }) => [reason, podCount]);
    const state = JSON.stringify([phase, counts, causes]);
    if (state !== last) console.log(message);
    last = state;
  };
}

function rules(): FailureRules {
  if (!IMAGE_PULL) return [];
  return [{ failure: "image-pull", limit: { case: "grace", value: durationFromMs(Number(IMAGE_PULL) * 1000) } }];
}

function explain(report: RolloutReport): void {
  console.log(report.verdict?.message);
  for (const { message, remedy } of report.blockers) console.log(`${message} → ${remedy || "wait"}`);
}

async function deploy(rollouts: Rollouts, api: Api, manifest: string, key: Key): Promise<number> {
  const applied = await api.request({
    method: "PATCH",
    path: pathOf(DEPLOYMENT, key.namespace, key.name),
    query: "fieldManager=pipeline&force=true",
    contentType: "application/apply-patch+yaml",
    body: manifest,
  });
  if (!applied.ok) throw new ApiError("apply the manifest", applied.code, applied.message);
  const times = { timeoutMs: Number(TIMEOUT) * 1000, intervalMs: Number(INTERVAL) * 1000 };
  try {
    await rollouts.wait(key, { ...times, failOn: rules(), progress: progress() });
    return 0;
  } catch (error) {
    if (error instanceof WaitTimeoutError) {
      explain(error.report);
      return 3;
    }
    if (!(error instanceof StalledError)) throw error;
    explain(error.report);
    // A deadline that has passed is not a reason to undo: the rollout may still complete.
    if (error.report.verdict?.certain) {
      console.log("The failure is certain: rolling back.");
      const { steps } = await rollouts.rollback(key);
      for (const failure of await rollouts.apply(steps)) console.log(String(failure));
    }
    return 1;
  }
}

const [file, namespace, name] = process.argv.slice(2);
if (!file || !namespace || !name) {
  console.error("usage: deploy.mts MANIFEST NAMESPACE DEPLOYMENT");
  process.exit(2);
}
try {
  const planner = Planner.grpc(ROLLPLAN_SERVER);
  const api = await Api.fromConfig(undefined, { userAgent: "pipeline" });
  const manifest = await readFile(file, "utf8");
  process.exitCode = await deploy(new Rollouts(planner, api), api, manifest, { namespace, name });
  planner.close();
  api.close();
} catch (error) {
  if (!(error instanceof RollplanError)) throw error;
  console.error(error.message);
  const isRejected = error instanceof ApiError && error.code >= 400 && error.code < 500;
  process.exit(isRejected || error instanceof NotFoundError ? 2 : 4);
}
