/** Making the calls of a plan: docs/guides/adapters.md, "The loop". */

import { create } from "@bufbuild/protobuf";

import { ApiError, CancelledError } from "./errors.js";
import { AnswerSchema, OnFailure, Verb, type ApiCall, type Answer as CallAnswer, type Step } from "./gen/rollplan/v1/plan_pb.js";
import { Answer, type Api } from "./kubernetes.js";

const METHODS: Readonly<Record<Verb, string>> = {
  [Verb.UNSPECIFIED]: "",
  [Verb.CREATE]: "POST",
  [Verb.PATCH]: "PATCH",
  [Verb.DELETE]: "DELETE",
  [Verb.GET]: "GET",
};
// The longest body of a failed call that the planner accepts.
const FAILED_BYTES_MAX = 64 << 10;

/** A call that failed. */
export class Failure {
  readonly summary: string;
  readonly answer: Answer;
  /** The step that has the call. Undefined if it is a read. */
  readonly step: Step | undefined;

  constructor(summary: string, answer: Answer, step?: Step) {
    this.summary = summary;
    this.answer = answer;
    this.step = step;
  }

  toString(): string {
    return new ApiError(this.summary, this.answer.code, this.answer.message).message;
  }
}

/**
 * Makes the calls of a plan in order. Adds their answers to `answers`, and returns the failed ones.
 *
 * @throws CancelledError when it was cancelled: the call in progress then has an answer without a code, and the remaining ones none.
 */
export async function carryOut(api: Api, steps: Iterable<Step>, answers: CallAnswer[], signal?: AbortSignal): Promise<Failure[]> {
  const failures: Failure[] = [];
  let hasEnded = false;
  for (const step of steps) {
    const { id, call, readOnConflict, onFailure, doneHttpCodes, eventCalls } = step;
    if (hasEnded) {
      if (call) answers.push(create(AnswerSchema, { id }));
      continue;
    }
    if (call) {
      const answer = await makeCall(api, call, signal).catch((error: unknown) => {
        if (error instanceof CancelledError) answers.push(answerOf(id, new Answer(0)));
        throw error;
      });
      const existing = answer.code === 409 && readOnConflict ? await makeCall(api, readOnConflict, signal) : undefined;
      answers.push(answerOf(id, answer, existing));
      if (!answer.ok && !(onFailure === OnFailure.DONE_IF && doneHttpCodes.includes(answer.code))) {
        failures.push(new Failure(step.summary, answer, step));
        hasEnded = onFailure !== OnFailure.CONTINUE;
        continue;
      }
    }
    // A plan does not depend on events.
    for (const event of eventCalls) await makeCall(api, event, signal);
  }
  return failures;
}

/** Makes a call once. */
export function makeCall(api: Api, call: ApiCall, signal?: AbortSignal): Promise<Answer> {
  const { verb, path, query, contentType, bodyJson } = call;
  return api.request({ method: METHODS[verb], path, query, contentType, body: bodyJson }, signal);
}

/** The answer to a call, for the next request. */
export function answerOf(id: string, answer: Answer, existing?: Answer): CallAnswer {
  const body = answer.ok ? answer.body : answer.body.subarray(0, FAILED_BYTES_MAX);
  return create(AnswerSchema, { id, made: true, httpCode: answer.code, body, ...(existing?.ok && { existing: existing.body }) });
}
