/** Kubernetes objects in the form of the API server. Only the identifying fields are read. All others are unchanged. */

import { ApiError } from "./errors.js";
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

/** The controller of an object. */
export interface Controller {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** An object, and its JSON, without the managed fields of ReplicaSets and pods. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly key: Key;
  readonly uid: string;
  /** The resourceVersion. */
  readonly version: string;
  readonly json: string;
  readonly controller?: Controller | undefined;
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
  const complete = { apiVersion: kind.apiVersion, kind: kind.kind, ...it };
  // The planner reads who has written the status of an owner.
  const isDependent = [REPLICA_SET.kind, POD.kind].includes(kind.kind);
  const kept = isDependent ? { ...complete, metadata: { ...metadata, managedFields: undefined } } : complete;
  return {
    apiVersion: requireString(kept, "apiVersion"),
    kind: requireString(kept, "kind"),
    key: { namespace: readString(metadata, "namespace"), name: requireString(metadata, "name") },
    uid: requireString(metadata, "uid"),
    version: requireString(metadata, "resourceVersion"),
    // The text is not written again if it is complete. JSON.stringify omits what is undefined.
    json: text && it.kind && it.apiVersion && !isDependent ? text : JSON.stringify(kind.kind === POD.kind ? { ...kept, spec: undefined } : kept),
    controller: controllerOf(metadata),
  };
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

/** An event of a watch: "ADDED", "MODIFIED" or "DELETED". */
export interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

/**
 * Reads a line of a watch.
 *
 * @throws SyntaxError if it is not an event, and ApiError if it is an error event.
 */
export function parseEvent(text: string, kind: Kind): WatchEvent {
  const event = asFields(parseExactly(text));
  const type = readString(event, "type");
  const body = asFields(event.object);
  if (type === "ERROR") throw new ApiError(`watch ${kind.plural}`, Number(body.code ?? 0), readString(body, "message"));
  return { type, object: objectOf(body, kind) };
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
