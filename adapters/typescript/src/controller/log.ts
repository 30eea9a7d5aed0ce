/** The log: each message is a line of JSON, so text from a cluster cannot forge a line. */

const LEVELS = ["debug", "info", "warn", "error"] as const;

/** Writes messages with a level. */
export type Log = Record<(typeof LEVELS)[number], (message: string) => void>;

/** A log of messages with at least this level. */
export function createLog(level: string, write: (line: string) => void): Log {
  const least = Math.max(
    0,
    LEVELS.findIndex((it) => it === level.toLowerCase()),
  );
  const writerOf = (name: string, index: number) => (message: string) => {
    if (index >= least) write(`${JSON.stringify({ time: new Date().toISOString(), level: name, message })}\n`);
  };
  return Object.fromEntries(LEVELS.map((name, index) => [name, writerOf(name, index)])) as Log;
}
