/** The command line of the controller, with the flags of the Go adapter. */

import { existsSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { DEPLOYMENT, PLANNED_DEPLOYMENT, type Kind } from "../objects.js";
import type { Address } from "./serve.js";

const NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const MODES: Readonly<Record<string, Kind>> = { takeover: DEPLOYMENT, "custom-resource": PLANNED_DEPLOYMENT };
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** The command line is invalid. */
export class UsageError extends Error {}

/** A flag: its parser, its default, and its description. */
interface Flag<T> {
  readonly read: (text: string) => T;
  /** Undefined if it is required. */
  readonly initial?: string;
  readonly help: string;
}

function flag<T>(read: (text: string) => T, initial: string | undefined, help: string): Flag<T> {
  return initial === undefined ? { read, help } : { read, initial, help };
}

/** A duration in the notation of Go, for example "1m30s" or "100ms", in milliseconds. */
export function duration(text: string): number {
  if (text === "0") return 0;
  const parts = Array.from(text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g));
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== text) {
    throw new UsageError(`invalid duration ${JSON.stringify(text)}, for example 100ms or 1m30s`);
  }
  return parts.reduce((sum, [, number = "", unit = ""]) => sum + Number(number) * (UNIT_MS[unit] ?? 0), 0);
}

/** A boolean in the notation of Go. */
export function boolean(text: string): boolean {
  const value = { true: true, "1": true, false: false, "0": false }[text.toLowerCase()];
  if (value === undefined) throw new UsageError(`invalid value ${JSON.stringify(text)}: must be true or false`);
  return value;
}

/** A number that is greater than 0. */
export function positive(text: string): number {
  const value = Number(text);
  if (!text || !Number.isFinite(value) || value <= 0) {
    throw new UsageError(`invalid value ${JSON.stringify(text)}: must be a number greater than 0`);
  }
  return value;
}

/** A whole number that is greater than 0. */
export function count(text: string): number {
  const value = positive(text);
  if (!Number.isInteger(value)) throw new UsageError(`invalid value ${JSON.stringify(text)}: must be a whole number`);
  return value;
}

/** Host and port to listen on, or undefined for none. */
export function address(text: string): Address | undefined {
  if (text === "" || text === "0") return undefined;
  const [, host, port] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined || port === undefined || Number(port) > 65_535) {
    throw new UsageError(`invalid address ${JSON.stringify(text)}, for example :8080 or 127.0.0.1:8080`);
  }
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port) };
}

function mode(text: string): string {
  if (!Object.hasOwn(MODES, text)) throw new UsageError(`invalid value ${JSON.stringify(text)}: must be takeover or custom-resource`);
  return text;
}

const text = (it: string): string => it;
const list = (it: string): string[] => it.split(",").map((part) => part.trim()).filter(Boolean);

const FLAGS = {
  mode: flag(
    mode,
    undefined,
    "takeover manages apps/v1 Deployments and requires that the Deployment controller of kube-controller-manager is disabled; " +
      "custom-resource manages PlannedDeployments on any cluster",
  ),
  planner: flag(text, undefined, "address of the service: host:port for gRPC, or a URL for Connect"),
  "planner-ca": flag(text, "", "PEM file with the CA certificates that verify the service; without it, gRPC is not encrypted"),
  "planner-timeout": flag(duration, "10s", "timeout of one attempt to call the service"),
  kubeconfig: flag(text, "", "path of the kubeconfig; defaults to KUBECONFIG, or in a pod to its service account"),
  namespaces: flag(list, "", "comma-separated list of namespaces to manage; all if it is empty"),
  selector: flag(text, "", "label selector of the Deployments to manage; all if it is empty"),
  workers: flag(count, "5", "number of Deployments that are synced concurrently"),
  "min-interval": flag(duration, "100ms", "minimum time between two syncs of a Deployment"),
  "status-interval": flag(duration, "500ms", "how long to delay a status update that only reports progress"),
  "resync-interval": flag(duration, "1h", "how often all Deployments are synced"),
  "kube-api-qps": flag(positive, "50", "maximum rate of API server requests, per second"),
  "kube-api-burst": flag(count, "100", "maximum burst of API server requests"),
  "metrics-bind-address": flag(address, ":8080", "address of the metrics endpoint; 0 disables it"),
  "health-probe-bind-address": flag(address, ":8081", "address of /healthz and /readyz; 0 disables them"),
  "leader-elect": flag(boolean, "true", "work only while holding a lease, so that several replicas can run"),
  "leader-elect-namespace": flag(text, "", "namespace of the lease and of the probe; defaults to that of the pod"),
  "leader-elect-lease-name": flag(
    text,
    "",
    "name of the lease; adapters with the same lease exclude each other, so each installation needs its own; defaults to " +
      "rollplan-controller and the mode",
  ),
  "leader-elect-lease-duration": flag(duration, "15s", "how long other replicas wait before they take over a lease"),
  "native-controller-probe": flag(
    duration,
    "25s",
    "in takeover mode, how long to watch whether the native Deployment controller writes the status of a Deployment without " +
      "pods, before the first write; 0 disables the probe",
  ),
};

/** The values of all flags. */
export type Flags = { readonly [Name in keyof typeof FLAGS]: ReturnType<(typeof FLAGS)[Name]["read"]> };

/** The lines of the help. */
export function help(): string {
  const lines = Object.entries<Flag<unknown>>(FLAGS).map(([name, { initial, help: what }]) => {
    const standing = initial ?? "required";
    return `  --${name}\n      ${what}${standing && ` (${standing})`}`;
  });
  return `usage: rollplan-controller-typescript --mode=MODE --planner=ADDRESS [flags]\n\n${lines.join("\n")}\n`;
}

/**
 * Reads the command line. Undefined if it asks for help.
 *
 * @throws UsageError if it is invalid.
 */
export function parseFlags(args: readonly string[]): Flags | undefined {
  if (args.some((it) => it === "--help" || it === "-h")) return undefined;
  const given = readArguments(args);
  const entries = Object.entries<Flag<unknown>>(FLAGS).map(([name, { read, initial }]) => {
    const value = given[name] ?? initial;
    if (value === undefined) throw new UsageError(`--${name} is required`);
    try {
      return [name, read(value)];
    } catch (error) {
      throw error instanceof UsageError ? new UsageError(`--${name}: ${error.message}`) : error;
    }
  });
  const flags = Object.fromEntries(entries) as Flags;
  if (!needsNamespace(flags) || flags["leader-elect-namespace"]) return flags;
  if (!existsSync(NAMESPACE_FILE)) {
    throw new UsageError(
      "outside a cluster, set --leader-elect-namespace, which has the lease and the probe for the native Deployment " +
        "controller; or set --leader-elect=false if no other replica runs, and --native-controller-probe=0",
    );
  }
  return { ...flags, "leader-elect-namespace": readFileSync(NAMESPACE_FILE, "utf8").trim() };
}

function readArguments(args: readonly string[]): Readonly<Record<string, string | undefined>> {
  // A boolean flag needs no value.
  const booleans = Object.entries<Flag<unknown>>(FLAGS).filter(([, { read }]) => read === boolean);
  const names = new Set(booleans.map(([name]) => `--${name}`));
  const options = Object.fromEntries(Object.keys(FLAGS).map((name) => [name, { type: "string" as const }]));
  try {
    return parseArgs({ args: args.map((it) => (names.has(it) ? `${it}=true` : it)), options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** Whether there is a probe. It is irrelevant for PlannedDeployments. */
export function hasProbe(flags: Flags): boolean {
  return flags.mode === "takeover" && flags["native-controller-probe"] > 0;
}

function needsNamespace(flags: Flags): boolean {
  return flags["leader-elect"] || hasProbe(flags);
}

/** The kind that a mode manages. */
export function kindOf(flags: Flags): Kind {
  return MODES[flags.mode] ?? DEPLOYMENT;
}
