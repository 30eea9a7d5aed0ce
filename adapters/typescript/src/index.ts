/** Client library of rollplan. The messages of the service are in `rollplan/v1`. */

export { connectTransport, grpcTransport, type ConnectOptions } from "./connect.js";
export * from "./errors.js";
export { fetchTransport, type FetchOptions } from "./fetch.js";
export {
  Answer,
  Api,
  type AnswerOrigin,
  type ApiOptions,
  type ApiRequest,
  type Connection,
  type ListOptions,
  type Status,
  type WatchOptions,
} from "./kubernetes.js";
export {
  DEPLOYMENT,
  EVENT,
  keyText,
  parseList,
  parseObject,
  pathOf,
  PLANNED_DEPLOYMENT,
  POD,
  REPLICA_SET,
  type Controller,
  type Key,
  type Kind,
  type KubeObject,
  type Page,
  type WatchEvent,
} from "./objects.js";
export type {
  CanaryOptions,
  FailureRules,
  ForecastOptions,
  Reader,
  RolloutsOptions,
  StatusOptions,
  SyncResult,
  WaitOptions,
} from "./options.js";
export { localTransport, type LocalOptions } from "./local.js";
export { Planner, type CallOptions, type PlannerOptions } from "./planner.js";
export { Rollouts } from "./rollouts.js";
export type { Failure } from "./steps.js";
export type { AttemptOptions, Transport } from "./transport.js";
