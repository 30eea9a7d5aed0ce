/** Kubernetes objects in the form of the API server. Only the identifying fields are read. All others are unchanged. */

import { elements, members, writeMembers } from "./json.js";

/** Namespace and name of a Deployment. */
export interface Key {
  readonly namespace: string;
  readonly name: string;
}

/** A key as text, for messages and for maps. */
export function keyText({ namespace, name }: Key): string {
  return `${namespace}/${name}`;
}

/** A kind of objects, and its name in API paths. */
export interface Kind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
}

/** The kind Deployment. */
export const DEPLOYMENT: Kind = { apiVersion: "apps/v1", kind: "Deployment", plural: "deployments" };
/** The custom resource that can be used next to the Deployment controller of Kubernetes. */
export const PLANNED_DEPLOYMENT: Kind = {
  apiVersion: "apps.rollplan.dev/v1alpha1",
  kind: "PlannedDeployment",
  plural: "planneddeployments",
};
/** The kind ReplicaSet. */
export const REPLICA_SET: Kind = { apiVersion: "apps/v1", kind: "ReplicaSet", plural: "replicasets" };
/** The kind Pod. */
export const POD: Kind = { apiVersion: "v1", kind: "Pod", plural: "pods" };
/** The kind Event. */
export const EVENT: Kind = { apiVersion: "v1", kind: "Event", plural: "events" };
/** A field of the status that API servers before Kubernetes 1.35 do not store by default, as it occurs in JSON. */
export const TERMINATING_REPLICAS = '"terminatingReplicas"';

/** The controller of an object. */
export interface Controller {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** An object, and its JSON without the managed fields. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly key: Key;
  readonly uid: string;
  /** The resourceVersion. Of two versions of an object, the newer one has the larger number. */
  readonly version: bigint;
  readonly json: string;
  readonly controller?: Controller | undefined;
  readonly deleting: boolean;
  /** Whether the strategy is Recreate, which needs the pods. */
  readonly recreate: boolean;
  /** The label selector of an owner, in the form of a query. Empty if there is none. */
  readonly selector: string;
  /** The time of the last status write by kube-controller-manager, by its clock. */
  readonly nativeStatusWrite: string;
}

/** The path of an object, or of the list of objects in a namespace or in the cluster. */
export function pathOf(kind: Kind, namespace = "", name = ""): string {
  const group = kind.apiVersion.includes("/") ? "apis" : "api";
  const scope = namespace ? ["namespaces", namespace] : [];
  return ["", group, kind.apiVersion, ...scope, kind.plural, ...(name ? [name] : [])].join("/");
}

/**
 * Reads the text of an object. The kind is passed, because items of lists lack it.
 *
 * @throws SyntaxError if it is not the text of an object.
 */
export function parseObject(text: string, kind: Kind): KubeObject {
  const parts = members(text);
  const metadata = members(parts.get("metadata") ?? "{}");
  const spec = readMembers(parts, "spec");
  return {
    apiVersion: parts.has("apiVersion") ? requireString(parts, "apiVersion") : kind.apiVersion,
    kind: parts.has("kind") ? requireString(parts, "kind") : kind.kind,
    key: { namespace: readString(metadata, "namespace"), name: requireString(metadata, "name") },
    uid: requireString(metadata, "uid"),
    version: BigInt(requireString(metadata, "resourceVersion")),
    json: keptText(text, parts, metadata, kind),
    controller: controllerOf(metadata),
    deleting: metadata.has("deletionTimestamp"),
    recreate: readString(readMembers(spec, "strategy"), "type") === "Recreate",
    selector: spec.has("template") ? selectorQuery(read(spec, "selector") as LabelSelector | undefined) : "",
    nativeStatusWrite: nativeStatusWrite(metadata.get("managedFields")),
  };
}

/** The text for the service. It is rewritten only if fields must be added or removed. */
function keptText(text: string, parts: Parts, metadata: Parts, kind: Kind): string {
  const complete = parts.has("apiVersion") && parts.has("kind") && !metadata.has("managedFields");
  if (complete && kind.kind !== POD.kind) return text;
  // Members of the text override the passed ones.
  const kept = new Map([["apiVersion", JSON.stringify(kind.apiVersion)], ["kind", JSON.stringify(kind.kind)], ...parts]);
  const keptMetadata = new Map(metadata);
  keptMetadata.delete("managedFields");
  kept.set("metadata", writeMembers(keptMetadata));
  if (kind.kind === POD.kind) kept.delete("spec");
  return writeMembers(kept);
}

/** The objects of a list, their resourceVersion, and the token of the next page. */
export interface Page {
  readonly objects: KubeObject[];
  readonly version: string;
  readonly next: string;
}

/**
 * Reads the text of a list.
 *
 * @throws SyntaxError if it is not the text of a list.
 */
export function parseList(text: string, kind: Kind): Page {
  const parts = members(text);
  const metadata = members(parts.get("metadata") ?? "{}");
  const items = parts.get("items");
  return {
    objects: items === undefined || items === "null" ? [] : elements(items).map((it) => parseObject(it, kind)),
    version: readString(metadata, "resourceVersion"),
    next: readString(metadata, "continue"),
  };
}

/** An event of a watch. */
export interface WatchEvent {
  /** "ADDED", "MODIFIED", "DELETED", or "BOOKMARK", which has no object. */
  readonly type: string;
  readonly object?: KubeObject | undefined;
  /** The resourceVersion up to which all changes are known. */
  readonly version: string;
}

/**
 * Reads a line of a watch.
 *
 * @throws SyntaxError if it is not an event, and WatchError if it is an error event.
 */
export function parseEvent(text: string, kind: Kind): WatchEvent {
  const parts = members(text);
  const type = readString(parts, "type");
  const body = parts.get("object") ?? "{}";
  if (type === "ERROR") {
    const { code = 0, message = "" } = JSON.parse(body) as { code?: number; message?: string };
    throw new WatchError(code, message);
  }
  if (type === "BOOKMARK") {
    const version = readString(readMembers(members(body), "metadata"), "resourceVersion");
    return { type, version };
  }
  const object = parseObject(body, kind);
  return { type, object, version: String(object.version) };
}

/** The error event that ends a watch, with the code of its Status. */
export class WatchError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

type Parts = ReadonlyMap<string, string>;

function read(parts: Parts, name: string): unknown {
  const text = parts.get(name);
  return text === undefined ? undefined : JSON.parse(text);
}

function readString(parts: Parts, name: string): string {
  const value = read(parts, name);
  return typeof value === "string" ? value : "";
}

function requireString(parts: Parts, name: string): string {
  const value = readString(parts, name);
  if (!value) throw new SyntaxError(`not a Kubernetes object: missing ${name}`);
  return value;
}

function readMembers(parts: Parts, name: string): Parts {
  const text = parts.get(name);
  return text?.startsWith("{") ? members(text) : new Map<string, string>();
}

function controllerOf(metadata: Parts): Controller | undefined {
  const owners = read(metadata, "ownerReferences") as (Controller & { controller?: boolean })[] | null | undefined;
  const found = owners?.find((it) => it.controller);
  return found && { kind: found.kind, name: found.name, uid: found.uid };
}

interface LabelSelector {
  matchLabels?: Record<string, string> | null;
  matchExpressions?: { key: string; operator: string; values?: string[] | null }[] | null;
}

/** A LabelSelector in the form of a query. */
function selectorQuery(selector: LabelSelector | null | undefined): string {
  const terms = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  for (const { key, operator, values } of selector?.matchExpressions ?? []) {
    const list = `(${(values ?? []).join(",")})`;
    if (operator === "In") terms.push(`${key} in ${list}`);
    else if (operator === "NotIn") terms.push(`${key} notin ${list}`);
    else if (operator === "Exists") terms.push(key);
    else if (operator === "DoesNotExist") terms.push(`!${key}`);
    else throw new SyntaxError(`not a label selector: unknown operator ${operator}`);
  }
  return terms.join(",");
}

function nativeStatusWrite(managed: string | undefined): string {
  if (!managed?.includes('"kube-controller-manager"')) return "";
  const times = elements(managed)
    .map((it) => members(it))
    .filter((it) => readString(it, "manager") === "kube-controller-manager" && readString(it, "subresource") === "status")
    .map((it) => readString(it, "time"));
  return times.reduce((latest, it) => (it > latest ? it : latest), "");
}
