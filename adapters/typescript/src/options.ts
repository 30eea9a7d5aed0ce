/** The parameters and results of the methods of Rollouts. */

import type { MessageInitShape } from "@bufbuild/protobuf";

import type { PlanCanaryRequestSchema } from "./gen/rollplan/v1/canary_pb.js";
import type { ForecastRolloutRequestSchema } from "./gen/rollplan/v1/forecast_pb.js";
import type { FailureRuleSchema, PlanOptionsSchema, PlanRolloutResponse } from "./gen/rollplan/v1/plan_pb.js";
import type { RolloutReport, Verdict } from "./gen/rollplan/v1/report_pb.js";
import type { Key, Kind, KubeObject } from "./objects.js";
import type { CallOptions } from "./planner.js";
import type { Failure } from "./steps.js";

/** Where objects are read: the API server, or a cache of watches. */
export interface Reader {
  /** An object, or undefined if it does not exist. */
  get(kind: Kind, key: Key, signal?: AbortSignal): Promise<KubeObject | undefined>;
  /** The objects with these controllers. Undefined stands for objects without a controller. */
  controlledBy(
    kind: Kind,
    namespace: string,
    uids: ReadonlySet<string | undefined>,
    signal?: AbortSignal,
  ): Promise<KubeObject[]>;
}

/** Settings of Rollouts. */
export interface RolloutsOptions {
  /** By default Deployments. */
  readonly kind?: Kind;
  /** Without a reader, objects are read from the API server. */
  readonly reader?: Reader;
  readonly options?: Pick<MessageInitShape<typeof PlanOptionsSchema>, "horizon" | "terminatingReplicas" | "caps">;
  /** How long `sync` may delay a status update that only reports progress, so that one write covers several changes. */
  readonly statusIntervalMs?: number;
  /** The minimum time between two syncs of a Deployment. The service returns it in each response. */
  readonly minIntervalMs?: number;
}

/** The result of a sync. */
export interface SyncResult {
  /** Whether the Deployment exists. */
  readonly exists: boolean;
  /** The plan. Undefined if none was needed. */
  readonly response?: PlanRolloutResponse;
  /** The calls that failed, to log them. The service gets their answers. */
  readonly failures: readonly Failure[];
  /** The minimum time until the next sync, so that one plan covers several changes. */
  readonly notBeforeMs: number;
  /** When to sync again even if nothing changes. Undefined if no timer is needed. */
  readonly requeueAfterMs?: number;
}

/** Rules that change when failures are certain: docs/reference/verdict.md. */
export type FailureRules = MessageInitShape<typeof FailureRuleSchema>[];

/** Options of a status. */
export interface StatusOptions extends CallOptions {
  /** The previous verdict, when polling. */
  readonly previous?: Verdict | undefined;
  readonly failOn?: FailureRules;
}

/** Options of a wait. */
export interface WaitOptions extends CallOptions {
  readonly timeoutMs: number;
  /** The polling interval. */
  readonly intervalMs?: number;
  readonly failOn?: FailureRules;
  /** Called with each report. */
  readonly progress?: (report: RolloutReport) => void;
}

/** Options of a forecast. */
export interface ForecastOptions
  extends CallOptions, Pick<MessageInitShape<typeof ForecastRolloutRequestSchema>, "changes" | "podTimes" | "limits" | "samples" | "seed"> {}

/** Options of a plan of a canary. */
export interface CanaryOptions
  extends CallOptions, Pick<MessageInitShape<typeof PlanCanaryRequestSchema>, "policy" | "command" | "verdicts"> {}
