/** Metrics, with the names of the Go adapter. */

import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";

import { Outlook, Phase, type RolloutReport } from "../gen/rollplan/v1/report_pb.js";
import { keyText, type Key } from "../objects.js";

/** The metrics of one controller. */
export class Metrics {
  readonly registry = new Registry();
  readonly #registers = [this.registry];
  readonly #plannerSeconds = new Histogram({
    name: "rollplan_controller_planner_request_duration_seconds",
    help: "Duration of attempts to call the rollplan service, by code.",
    labelNames: ["code"],
    buckets: Array.from({ length: 8 }, (_, i) => 0.0005 * 4 ** i),
    registers: this.#registers,
  });
  readonly #syncs = new Counter({
    name: "rollplan_controller_syncs_total",
    help: "Syncs of Deployments, by outcome.",
    labelNames: ["outcome"],
    registers: this.#registers,
  });
  readonly #rejectedCalls = new Counter({
    name: "rollplan_controller_rejected_calls_total",
    help: "Calls that the API server rejected, by the reason of the rejection.",
    labelNames: ["reason"],
    registers: this.#registers,
  });
  readonly #rollouts = new Gauge({
    name: "rollplan_controller_rollouts",
    help: "Deployments by the phase and the verdict of their rollout in the last plan.",
    labelNames: ["phase", "verdict", "certain"],
    registers: this.#registers,
  });
  readonly #leaseHolder = new Gauge({
    name: "rollplan_controller_lease_holder",
    help:
      "Always 1. The label holder has the holder of the lease, and self whether that is this process. Other processes wait for " +
      "the lease.",
    labelNames: ["lease", "holder", "self"],
    registers: this.#registers,
  });
  readonly #phases = new Map<string, Record<"phase" | "verdict" | "certain", string>>();

  /** Measures a queue whenever the metrics are read. */
  measureQueue(length: () => number): void {
    new Gauge({
      name: "rollplan_controller_queue_length",
      help: "Deployments that are waiting to be synced.",
      registers: this.#registers,
      collect() {
        this.set(length());
      },
    });
  }

  /** Adds the metrics of the process. */
  collectProcess(): void {
    collectDefaultMetrics({ register: this.registry });
  }

  /** Measures an attempt to call the service. Codes have their names in Go. */
  readonly observePlanner = (ms: number, code: string): void => {
    const words = code.split("_").map((it) => it.charAt(0).toUpperCase() + it.slice(1));
    this.#plannerSeconds.observe({ code: code === "ok" ? "OK" : words.join("") }, ms / 1000);
  };

  /** Records the holder of the lease. It is empty after the lease has been released. */
  readonly observeLease = (lease: string, holder: string, isSelf: boolean): void => {
    this.#leaseHolder.reset();
    if (holder) this.#leaseHolder.set({ lease, holder, self: String(isSelf) }, 1);
  };

  countSync(outcome: string): void {
    this.#syncs.inc({ outcome });
  }

  countRejection(reason: string): void {
    this.#rejectedCalls.inc({ reason: reason || "Unknown" });
  }

  /** Records the report of a Deployment, or that it no longer exists. */
  setPhase(key: Key, report: RolloutReport | undefined): void {
    const name = keyText(key);
    const before = this.#phases.get(name);
    if (before) this.#rollouts.dec(before);
    this.#phases.delete(name);
    if (!report) return;
    const { outlook = Outlook.UNSPECIFIED, certain = false } = report.verdict ?? {};
    const labels = {
      phase: Phase[report.phase].toLowerCase(),
      verdict: Outlook[outlook].toLowerCase(),
      certain: String(certain),
    };
    this.#phases.set(name, labels);
    this.#rollouts.inc(labels);
  }
}
