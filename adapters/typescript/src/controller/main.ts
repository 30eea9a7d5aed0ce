#!/usr/bin/env node
/** The program: a Deployment controller that carries out the plans of the service. docs/adapters.md */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { CancelledError } from "../errors.js";
import { Api } from "../kubernetes.js";
import { POD, REPLICA_SET } from "../objects.js";
import { Planner } from "../planner.js";
import { Rollouts } from "../rollouts.js";
import { SYSTEM_CLOCK } from "./clock.js";
import { Controller } from "./controller.js";
import { hasProbe, help, kindOf, parseFlags, UsageError, type Flags } from "./flags.js";
import { Election } from "./lease.js";
import { TokenBucket } from "./limiter.js";
import { createLog, type Log } from "./log.js";
import { Metrics } from "./metrics.js";
import { Probe } from "./probe.js";
import { Endpoint, probes } from "./serve.js";
import { awaitAccess, NoAccessError } from "./start.js";

const NAME = "rollplan-controller";
// Shorter than the timeout of the kubelet's probes.
const READINESS_TIMEOUT_MS = 800;

/** Runs the controller until the signal is aborted, and returns the exit code. */
async function run(flags: Flags, log: Log, stop: AbortSignal): Promise<number> {
  const kubeconfig = flags.kubeconfig || undefined;
  const limiter = new TokenBucket(SYSTEM_CLOCK, flags["kube-api-qps"], flags["kube-api-burst"]);
  const api = await Api.fromConfig(kubeconfig, { userAgent: NAME, limiter });
  // Without a limiter, because the lease must not wait for other requests.
  const leaseApi = await Api.fromConfig(kubeconfig, { userAgent: NAME });
  const kinds = [kindOf(flags), REPLICA_SET, POD];
  try {
    await awaitAccess({ api, clock: SYSTEM_CLOCK, log, kinds, namespaces: namespacesOf(flags) }, stop);
  } catch (error) {
    if (error instanceof CancelledError) return 0;
    if (!(error instanceof NoAccessError)) throw error;
    log.error(error.message);
    return 1;
  }
  const metrics = new Metrics();
  const planner = connect(flags, metrics.observePlanner);
  const controller = createController(flags, log, metrics, api, planner);
  const endpoints = await listen(flags, log, metrics, planner);
  try {
    await Promise.race([controller.startCaches(), aborted(stop)]);
    return await work(flags, log, metrics, controller, leaseApi, stop);
  } finally {
    for (const it of endpoints) it.close();
    planner.close();
    api.close();
    leaseApi.close();
  }
}

function connect(flags: Flags, observer: Metrics["observePlanner"]): Planner {
  const options = { timeoutMs: flags["planner-timeout"], observer, caFile: flags["planner-ca"] || undefined };
  if (flags.planner.includes("://")) return Planner.connect(flags.planner, options);
  return Planner.grpc(`${options.caFile ? "https" : "http"}://${flags.planner}`, options);
}

function createController(flags: Flags, log: Log, metrics: Metrics, api: Api, planner: Planner): Controller {
  const { selector, workers } = flags;
  const probed = { api, clock: SYSTEM_CLOCK, log, namespace: flags["leader-elect-namespace"] };
  const options = {
    kind: kindOf(flags),
    log,
    metrics,
    namespaces: namespacesOf(flags),
    selector,
    workers,
    minIntervalMs: flags["min-interval"],
    resyncIntervalMs: flags["resync-interval"],
    probe: hasProbe(flags) ? new Probe({ ...probed, waitMs: flags["native-controller-probe"] }) : undefined,
  };
  return new Controller(api, options, (settings) => {
    return new Rollouts(planner, api, { ...settings, statusIntervalMs: flags["status-interval"] });
  });
}

/** The namespaces to watch. An empty name stands for all. */
function namespacesOf({ namespaces }: Flags): readonly string[] {
  return namespaces.length > 0 ? namespaces : [""];
}

async function listen(flags: Flags, log: Log, metrics: Metrics, planner: Planner): Promise<Endpoint[]> {
  const endpoints: Promise<Endpoint>[] = [];
  const { "metrics-bind-address": metricsAddress, "health-probe-bind-address": healthAddress } = flags;
  if (metricsAddress) {
    metrics.collectProcess();
    const page = { type: metrics.registry.contentType, read: () => metrics.registry.metrics() };
    endpoints.push(Endpoint.listen(metricsAddress, { "/metrics": page }));
  }
  if (healthAddress) endpoints.push(Endpoint.listen(healthAddress, probes(() => planner.check(READINESS_TIMEOUT_MS), log)));
  return Promise.all(endpoints);
}

/** Runs the controller, while holding the lease if there is one. */
async function work(
  flags: Flags,
  log: Log,
  metrics: Metrics,
  controller: Controller,
  api: Api,
  stop: AbortSignal,
): Promise<number> {
  if (!flags["leader-elect"]) {
    if (!stop.aborted) controller.startWorkers();
    await aborted(stop);
    await controller.stop();
    return 0;
  }
  const election = new Election({
    api,
    clock: SYSTEM_CLOCK,
    log,
    namespace: flags["leader-elect-namespace"],
    // By default the lease of the Go adapter: the adapters exclude each other.
    name: flags["leader-elect-lease-name"] || `${NAME}-${flags.mode}`,
    observer: metrics.observeLease,
    identity: `${hostname()}_${randomUUID()}`,
    durationMs: flags["leader-elect-lease-duration"],
  });
  if (await election.acquire(stop)) {
    controller.startWorkers();
    if (!(await election.keep(stop))) {
      log.error("lost the lease");
      await controller.stop({ atOnce: true });
      return 1;
    }
  }
  await controller.stop();
  await election.release();
  return 0;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => {
      resolve();
    });
  });
}

async function main(): Promise<number> {
  const flags = parseFlags(process.argv.slice(2));
  if (!flags) {
    process.stdout.write(help());
    return 0;
  }
  const log = createLog(process.env.ROLLPLAN_LOG ?? "info", (line) => process.stderr.write(line));
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      stop.abort();
    });
  }
  log.info(`starting, mode ${flags.mode}, planner ${flags.planner}`);
  return run(flags, log, stop.signal);
}

try {
  process.exit(await main());
} catch (error) {
  process.stderr.write(`${NAME}: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(error instanceof UsageError ? 2 : 1);
}
