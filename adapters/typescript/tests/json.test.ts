/** Exact integers, and objects. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseExactly } from "../src/json.js";
import { DEPLOYMENT, parseEvent, parseList, parseObject, POD, REPLICA_SET } from "../src/objects.js";

const METADATA = '"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"9007199254740993"}';

test("integers stay as they are written", () => {
  for (const text of ['{"a":9007199254740993,"b":-9007199254740993,"c":[1,123456789012345678901234567890]}', '{"a":1,"b":"9007199254740993"}']) {
    assert.equal(JSON.stringify(parseExactly(text)), text);
  }
  assert.deepEqual(parseExactly('{"a":9007199254740991,"b":9007199254740993}'), { a: 9007199254740991, b: parseExactly("9007199254740993") });
});

test("integers beyond 2^53 and unknown fields are kept", () => {
  const text = `{"apiVersion":"apps/v1","kind":"Deployment",${METADATA},"spec":{"x":123456789012345678901234567890,"y":1.5}}`;
  const parsed = parseObject(text, DEPLOYMENT);
  assert.equal(parsed.json, text);
  assert.equal(parsed.version, "9007199254740993");
  const event = parseEvent(`{"type":"ADDED","object":${text}}`, DEPLOYMENT);
  assert.equal(event.object.json, text);
  assert.equal(parseList(`{"metadata":{},"items":[${text}]}`, DEPLOYMENT).objects[0]?.json, text);
});

test("only the managed fields of dependents are omitted", () => {
  const managed = JSON.stringify([{ manager: "kube-controller-manager", subresource: "status", time: "T2" }]);
  const text = `{${METADATA.slice(0, -1)},"managedFields":${managed}}}`;
  assert.equal(parseObject(text, REPLICA_SET).json, `{"apiVersion":"apps/v1","kind":"ReplicaSet",${METADATA}}`);
  // The planner detects writes of the native Deployment controller in those of an owner.
  assert.match(parseObject(text, DEPLOYMENT).json, /"managedFields":\[\{"manager":"kube-controller-manager"/);
});

test("the environment of a pod is not kept", () => {
  const parsed = parseObject(`{${METADATA},"spec":{"secret":1},"status":{"phase":"Running"}}`, POD);
  assert.equal(parsed.json, `{"apiVersion":"v1","kind":"Pod",${METADATA},"status":{"phase":"Running"}}`);
});

test("items of a list get their kind", () => {
  const page = parseList(`{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{${METADATA}}]}`, REPLICA_SET);
  assert.deepEqual([page.version, page.next, page.objects[0]?.kind], ["7", "t", "ReplicaSet"]);
  assert.deepEqual(parseList('{"metadata":{},"items":null}', REPLICA_SET).objects, []);
});

test("what is not an object is refused", () => {
  for (const text of ["<html>", "{}", '{"metadata":{"name":"a"}}', "[]"]) {
    assert.throws(() => parseObject(text, DEPLOYMENT), SyntaxError, text);
  }
});
