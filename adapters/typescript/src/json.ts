/** JSON whose integers stay exact: JSON.parse alone rounds those beyond 2^53. */

type Reviver = (key: string, value: unknown, context: { readonly source: string }) => unknown;

// Of Node.js 21 and later, but not yet declared by TypeScript. JSON.stringify prints what it returns as it is written.
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown };
const exactly: Reviver = (_key, value, { source }) =>
  typeof value === "number" && !Number.isSafeInteger(value) ? rawJSON(source) : value;

/** Reads a text, so that JSON.stringify prints the same integers. Safe ones are numbers. */
export function parseExactly(text: string): unknown {
  // Integers of up to 15 digits are safe. Reading them without a function takes half the time.
  return JSON.parse(text, /\d{16}/.test(text) ? (exactly as (key: string, value: unknown) => unknown) : undefined) as unknown;
}
