/**
 * JSON as text: finds the parts of a document without decoding them.
 *
 * JSON.parse rounds integers beyond 2^53, so objects that go on to the service or the API server stay text. Texts are those
 * of an API server: what is skipped is not validated.
 */

// By their code, because comparing numbers is faster than comparing strings.
const CHAR = {
  tab: 0x09,
  lineFeed: 0x0a,
  return: 0x0d,
  space: 0x20,
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  openBracket: 0x5b,
  backslash: 0x5c,
  closeBracket: 0x5d,
  openBrace: 0x7b,
  closeBrace: 0x7d,
} as const;

/** The members of an object: keys, and values as text. Of members with the same key the last one counts. */
export function members(text: string): Map<string, string> {
  const scanner = new Scanner(text);
  const found = new Map<string, string>();
  scanner.list(CHAR.openBrace, CHAR.closeBrace, () => {
    const key = JSON.parse(scanner.value()) as unknown;
    if (typeof key !== "string") throw new SyntaxError("a key must be a string");
    scanner.expect(CHAR.colon);
    found.set(key, scanner.value());
  });
  return found;
}

/** The elements of an array as text. */
export function elements(text: string): string[] {
  const scanner = new Scanner(text);
  const found: string[] = [];
  scanner.list(CHAR.openBracket, CHAR.closeBracket, () => found.push(scanner.value()));
  return found;
}

/** The text of an object with these members. */
export function writeMembers(parts: Iterable<readonly [string, string]>): string {
  return `{${Array.from(parts, ([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
}

class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads the whole text as a list of entries between two brackets. */
  list(open: number, close: number, entry: () => void): void {
    this.expect(open);
    if (this.#peek() === close) {
      this.#at++;
    } else {
      for (;;) {
        entry();
        if (this.#peek() !== CHAR.comma) break;
        this.#at++;
      }
      this.expect(close);
    }
    if (!Number.isNaN(this.#peek())) throw this.#error();
  }

  expect(char: number): void {
    if (this.#peek() !== char) throw this.#error();
    this.#at++;
  }

  /** The text of the next value. */
  value(): string {
    const first = this.#peek();
    const start = this.#at;
    if (first === CHAR.quote) this.#skipString();
    else if (first === CHAR.openBrace || first === CHAR.openBracket) this.#skipNested();
    else this.#skipScalar();
    if (this.#at === start) throw this.#error();
    return this.#text.slice(start, this.#at);
  }

  /** The next character that is not white space; NaN at the end. */
  #peek(): number {
    for (;;) {
      const char = this.#text.charCodeAt(this.#at);
      if (char !== CHAR.space && char !== CHAR.lineFeed && char !== CHAR.return && char !== CHAR.tab) return char;
      this.#at++;
    }
  }

  #skipString(): void {
    let end = this.#at;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) throw this.#error();
    } while (this.#isEscaped(end));
    this.#at = end + 1;
  }

  #isEscaped(at: number): boolean {
    let backslashes = 0;
    while (this.#text.charCodeAt(at - 1 - backslashes) === CHAR.backslash) backslashes++;
    return backslashes % 2 === 1;
  }

  #skipNested(): void {
    let depth = 0;
    do {
      const char = this.#text.charCodeAt(this.#at);
      if (Number.isNaN(char)) throw this.#error();
      if (char === CHAR.quote) {
        this.#skipString();
        continue;
      }
      if (char === CHAR.openBrace || char === CHAR.openBracket) depth++;
      else if (char === CHAR.closeBrace || char === CHAR.closeBracket) depth--;
      this.#at++;
    } while (depth > 0);
  }

  #skipScalar(): void {
    const scalar = /[-+.\w]*/y;
    scalar.lastIndex = this.#at;
    scalar.test(this.#text);
    this.#at = scalar.lastIndex;
  }

  #error(): SyntaxError {
    return new SyntaxError(`unexpected text at position ${this.#at} of a JSON document`);
  }
}
