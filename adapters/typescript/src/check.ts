/** The check of a request before it is encoded: the encoders convert some wrong values, and do not name the field of others. */

import { isMessage, ScalarType, toJson, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { DurationSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";

import { PlannerError } from "./errors.js";

/** What checks a single value, and what it expects. */
interface Check {
  readonly expected: string;
  accepts(value: unknown): boolean;
}

const INT32 = integer(-(2n ** 31n), 2n ** 31n - 1n, "a 32-bit integer");
const INT64 = integer(-(2n ** 63n), 2n ** 63n - 1n, "a 64-bit integer, for example 1n");
const UINT32 = integer(0n, 2n ** 32n - 1n, "an unsigned 32-bit integer");
const UINT64 = integer(0n, 2n ** 64n - 1n, "an unsigned 64-bit integer, for example 1n");
const NUMBER: Check = { expected: "a number", accepts: (value) => typeof value === "number" };

const SCALARS: Readonly<Record<ScalarType, Check>> = {
  [ScalarType.BOOL]: { expected: "a boolean", accepts: (value) => typeof value === "boolean" },
  [ScalarType.BYTES]: { expected: "a Uint8Array", accepts: (value) => value instanceof Uint8Array },
  [ScalarType.STRING]: {
    expected: "a string of well-formed Unicode",
    accepts: (value) => typeof value === "string" && value.isWellFormed(),
  },
  [ScalarType.DOUBLE]: NUMBER,
  [ScalarType.FLOAT]: NUMBER,
  [ScalarType.INT32]: INT32,
  [ScalarType.SINT32]: INT32,
  [ScalarType.SFIXED32]: INT32,
  [ScalarType.UINT32]: UINT32,
  [ScalarType.FIXED32]: UINT32,
  [ScalarType.INT64]: INT64,
  [ScalarType.SINT64]: INT64,
  [ScalarType.SFIXED64]: INT64,
  [ScalarType.UINT64]: UINT64,
  [ScalarType.FIXED64]: UINT64,
};

function integer(min: bigint, max: bigint, expected: string): Check {
  // As in the encoders, a 64-bit integer may also be a number or a decimal string.
  const isInteger = (value: unknown): value is bigint | number | string =>
    typeof value === "bigint" || Number.isInteger(value) || (typeof value === "string" && /^-?\d+$/.test(value));
  return { expected, accepts: (value) => isInteger(value) && BigInt(value) >= min && BigInt(value) <= max };
}

/**
 * Checks the values of a message.
 *
 * @throws PlannerError that names the first wrong field.
 */
export function checkMessage(desc: DescMessage, message: unknown, path = ""): void {
  const values = message as Readonly<Record<string, unknown>>;
  for (const field of desc.fields) {
    const name = path + field.localName;
    const value = valueOf(field, values);
    if (value === undefined) continue;
    if (field.fieldKind === "list") {
      if (!Array.isArray(value)) throw wrong(name, "an array", value);
      value.forEach((item, index) => {
        checkValue(field, item, `${name}[${index}]`);
      });
    } else if (field.fieldKind === "map") {
      if (typeof value !== "object" || value === null) throw wrong(name, "an object", value);
      for (const [key, item] of Object.entries(value)) checkValue(field, item, `${name}[${JSON.stringify(key)}]`);
    } else {
      checkValue(field, value, name);
    }
  }
}

/** The value of a field, or undefined if it is not set. */
function valueOf({ oneof, localName }: DescField, values: Readonly<Record<string, unknown>>): unknown {
  if (!oneof) return values[localName];
  const group = values[oneof.localName] as { readonly case?: string; readonly value?: unknown } | undefined;
  return group?.case === localName ? group.value : undefined;
}

/** Checks a singular value, or an item of a list or map. The contract uses messages, scalars and enums, but no groups. */
function checkValue(field: DescField, value: unknown, name: string): void {
  if (field.message) {
    if (!isMessage(value, field.message)) throw wrong(name, `a ${field.message.name}`, value);
    checkMessage(field.message, value, `${name}.`);
    checkRange(value, name);
    return;
  }
  const check = field.enum ? INT32 : SCALARS[field.scalar];
  if (!check.accepts(value)) throw wrong(name, check.expected, value);
}

/** Checks that a time or a duration is in the range that its JSON can have. */
function checkRange(value: Message, name: string): void {
  try {
    if (isMessage(value, TimestampSchema)) toJson(TimestampSchema, value);
    if (isMessage(value, DurationSchema)) toJson(DurationSchema, value);
  } catch (error) {
    throw new PlannerError("invalid_argument", `${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function wrong(name: string, expected: string, value: unknown): PlannerError {
  // The value itself may be long, or secret.
  const type = value === null ? "null" : Array.isArray(value) ? "an array" : typeof value;
  const numeric = typeof value === "number" || typeof value === "bigint";
  return new PlannerError("invalid_argument", `${name}: must be ${expected}, not ${numeric ? String(value) : type}`);
}
