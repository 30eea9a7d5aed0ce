/** The messages of the contract, generated from proto/rollplan/v1. */

export * from "./gen/rollplan/v1/canary_pb.js";
export * from "./gen/rollplan/v1/forecast_pb.js";
export * from "./gen/rollplan/v1/kubernetes_pb.js";
export * from "./gen/rollplan/v1/plan_pb.js";
export * from "./gen/rollplan/v1/report_pb.js";
export * from "./gen/rollplan/v1/restart_pb.js";
export * from "./gen/rollplan/v1/revision_pb.js";
export * from "./gen/rollplan/v1/service_pb.js";

// The helpers for times and durations in these messages, so that a project needs no other package.
export { durationFromMs, durationMs, timestampDate, timestampFromDate, timestampNow } from "@bufbuild/protobuf/wkt";
