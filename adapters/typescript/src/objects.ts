/** Kubernetes objects in the form of the API server. Only the identifying fields are read. All others are unchanged. */

import { parseExactly } from "./json.js";

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
  return objectOf(parseExactly(text), kind, text);
}

function objectOf(value: unknown, kind: Kind, text?: string): KubeObject {
  const it = asFields(value);
  const metadata = asFields(it.metadata);
  const spec = asFields(it.spec);
  const managed = (metadata.managedFields ?? undefined) as ManagedFields[] | undefined;
  const kept = { apiVersion: kind.apiVersion, kind: kind.kind, ...it };
  return {
    apiVersion: requireString(kept, "apiVersion"),
    kind: requireString(kept, "kind"),
    key: { namespace: readString(metadata, "namespace"), name: requireString(metadata, "name") },
    uid: requireString(metadata, "uid"),
    version: BigInt(requireString(metadata, "resourceVersion")),
    // Not written again if it is complete.
    json: text && it.kind && it.apiVersion && !managed && kind.kind !== POD.kind ? text : keptText(kept, metadata, kind),
    controller: controllerOf(metadata),
    deleting: "deletionTimestamp" in metadata,
    recreate: asFields(spec.strategy).type === "Recreate",
    selector: "template" in spec ? selectorQuery(spec.selector as LabelSelector | undefined) : "",
    nativeStatusWrite: nativeStatusWrite(managed),
  };
}

/** The text for the service. JSON.stringify omits what is undefined. */
function keptText(it: Fields, metadata: Fields, kind: Kind): string {
  const kept = { ...it, metadata: { ...metadata, managedFields: undefined } };
  return JSON.stringify(kind.kind === POD.kind ? { ...kept, spec: undefined } : kept);
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
  const list = asFields(parseExactly(text));
  const metadata = asFields(list.metadata);
  return {
    objects: ((list.items ?? []) as unknown[]).map((it) => objectOf(it, kind)),
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
  const event = asFields(parseExactly(text));
  const type = readString(event, "type");
  const body = asFields(event.object);
  if (type === "ERROR") throw new WatchError(Number(body.code ?? 0), readString(body, "message"));
  if (type === "BOOKMARK") return { type, version: readString(asFields(body.metadata), "resourceVersion") };
  const object = objectOf(body, kind);
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

type Fields = Readonly<Record<string, unknown>>;

/** The fields of an object; none if it is missing. */
function asFields(value: unknown): Fields {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("not a Kubernetes object");
  return value as Fields;
}

function readString(fields: Fields, name: string): string {
  const value = fields[name];
  return typeof value === "string" ? value : "";
}

function requireString(fields: Fields, name: string): string {
  const value = readString(fields, name);
  if (!value) throw new SyntaxError(`not a Kubernetes object: missing ${name}`);
  return value;
}

function controllerOf(metadata: Fields): Controller | undefined {
  const owners = metadata.ownerReferences as (Controller & { controller?: boolean })[] | null | undefined;
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

interface ManagedFields {
  readonly manager?: string;
  readonly subresource?: string;
  readonly time?: string;
}

function nativeStatusWrite(managed: readonly ManagedFields[] = []): string {
  const times = managed
    .filter((it) => it.manager === "kube-controller-manager" && it.subresource === "status")
    .map((it) => it.time ?? "");
  return times.reduce((latest, it) => (it > latest ? it : latest), "");
}
