/** Carrying out the steps of a plan: docs/api.md, "How to carry out a plan". */

import { create } from "@bufbuild/protobuf";

import { ApiError, CancelledError } from "./errors.js";
import { OnFailure, StepAnswerSchema, Verb, type ApiCall, type Step, type StepAnswer } from "./gen/rollplan/v1/plan_pb.js";
import { Answer, readAnswer, type Api } from "./kubernetes.js";
import { parseObject, REPLICA_SET, TERMINATING_REPLICAS, type KubeObject } from "./objects.js";
import type { OwnerState } from "./state.js";

const METHODS: Readonly<Record<Verb, string>> = {
  [Verb.UNSPECIFIED]: "",
  [Verb.CREATE]: "POST",
  [Verb.PATCH]: "PATCH",
  [Verb.DELETE]: "DELETE",
  [Verb.GET]: "GET",
};
// The longest body that the planner accepts in an answer.
const ANSWER_BYTES_MAX = 64 << 10;

/** A call of a plan that failed. */
export class Failure {
  readonly step: Step;
  readonly answer: Answer;
  readonly #call: ApiCall;
  readonly #existing: Uint8Array;

  /** `existing` is the object that already has the name, if it could be read. */
  constructor(step: Step, call: ApiCall, answer: Answer, existing: Uint8Array = new Uint8Array()) {
    this.step = step;
    this.answer = answer;
    this.#call = call;
    this.#existing = existing;
  }

  toString(): string {
    return new ApiError(this.step.summary, this.answer.code, this.answer.message).message;
  }

  /** The reason of the API server, for example "Conflict". */
  get reason(): string {
    return this.answer.status.reason ?? "";
  }

  /**
   * Whether the API server rejected the call, which users should know.
   *
   * Otherwise the plan was made from an outdated snapshot, or the outcome is unknown, and the next plan handles it. What
   * the planner makes of the answer does not depend on this.
   */
  get rejected(): boolean {
    const { code } = this.answer;
    if (!this.reason || this.reason === "Timeout" || this.reason === "ServerTimeout") return false;
    if (code === 409) return this.reason === "AlreadyExists";
    // Validation errors list causes; a failed `test` operation of a JSON patch does not.
    return code === 422 ? this.#causes.length > 0 : true;
  }

  /** Whether nothing more can be created, because the namespace is being deleted. */
  get namespaceTerminating(): boolean {
    return this.#causes.includes("NamespaceTerminating");
  }

  /**
   * Whether the ReplicaSets may differ from the cache and the adapter's own writes.
   *
   * A rejection by a quota or an admission rule does not mean that they do.
   */
  get raisesDoubts(): boolean {
    const { code } = this.answer;
    const rejected = this.rejected && code !== 404 && code !== 409 && code < 500;
    return this.#call.kind === REPLICA_SET.kind && !rejected;
  }

  /** The answer for the next request. */
  get message(): StepAnswer {
    return create(StepAnswerSchema, {
      call: this.#call,
      httpCode: this.answer.code,
      body: this.answer.body.subarray(0, ANSWER_BYTES_MAX),
      existingJson: this.#existing,
    });
  }

  get #causes(): string[] {
    return (this.answer.status.details?.causes ?? []).map((it) => it.reason ?? "");
  }
}

/** Makes the calls in order, and returns the failed ones. A cancelled call has no answer. */
export async function carryOut(
  api: Api,
  steps: Iterable<Step>,
  state: OwnerState,
  signal: AbortSignal | undefined,
): Promise<Failure[]> {
  const failures: Failure[] = [];
  for (const step of steps) {
    const failure = step.call && (await makeCall(api, step, step.call, state, signal));
    if (failure) {
      failures.push(failure);
      if (step.onFailure !== OnFailure.CONTINUE || signal?.aborted) break;
      continue;
    }
    // A plan does not depend on events.
    for (const call of step.eventCalls) await send(api, call, signal);
  }
  return failures;
}

async function makeCall(
  api: Api,
  step: Step,
  call: ApiCall,
  state: OwnerState,
  signal: AbortSignal | undefined,
): Promise<Failure | undefined> {
  const answer = await send(api, call, signal);
  if (answer.ok) {
    record(call, answer, state);
    return undefined;
  }
  if (step.onFailure === OnFailure.DONE_IF && step.doneHttpCodes.includes(answer.code)) return undefined;
  const failure = new Failure(step, call, answer, await readExisting(api, step, answer, signal));
  if (answer.code === 404) state.forgetMissing(call.kind, call.name);
  if (failure.raisesDoubts) state.verified = false;
  return failure;
}

async function send(api: Api, call: ApiCall, signal: AbortSignal | undefined): Promise<Answer> {
  try {
    const { path, query, contentType, bodyJson } = call;
    return await api.request({ method: METHODS[call.verb], path, query, contentType, body: bodyJson }, signal);
  } catch (error) {
    if (error instanceof CancelledError) return new Answer(0);
    throw error;
  }
}

async function readExisting(api: Api, step: Step, answer: Answer, signal: AbortSignal | undefined): Promise<Uint8Array> {
  if (answer.code !== 409 || !step.readOnConflict) return new Uint8Array();
  const read = await send(api, step.readOnConflict, signal);
  return read.ok ? read.body : new Uint8Array();
}

function record(call: ApiCall, answer: Answer, state: OwnerState): void {
  if (call.verb === Verb.DELETE) {
    state.recordWrite(deletedObject(call), { deleted: true });
    return;
  }
  const kind = { apiVersion: call.apiVersion, kind: call.kind, plural: "" };
  try {
    const written = readAnswer(`write ${call.kind} ${call.name}`, answer, (text) => parseObject(text, kind));
    const field = `${TERMINATING_REPLICAS}:`;
    if (call.bodyJson.includes(field) && !call.bodyJson.includes(`${field}null`)) {
      state.dropsTerminating = !written.json.includes(TERMINATING_REPLICAS);
    }
    state.recordWrite(written, { created: call.verb === Verb.CREATE });
  } catch (error) {
    state.verified = false; // the result of the write is unknown
    throw error;
  }
}

function deletedObject(call: ApiCall): KubeObject {
  const body = JSON.parse(call.bodyJson) as { preconditions: { uid: string } };
  return {
    apiVersion: call.apiVersion,
    kind: call.kind,
    key: { namespace: call.namespace, name: call.name },
    uid: body.preconditions.uid,
    version: 0n,
    json: "",
    deleting: true,
    recreate: false,
    selector: "",
    nativeStatusWrite: "",
  };
}
