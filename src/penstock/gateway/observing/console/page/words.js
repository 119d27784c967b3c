// Numbers and times as a person reads them.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const short = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
/** The time zone of all times of the page, as a reader writes it. */
export const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const codes = {
  "-1": "UNKNOWN_SERVER_ERROR", 2: "CORRUPT_MESSAGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 7: "REQUEST_TIMED_OUT", 10: "MESSAGE_TOO_LARGE",
  15: "COORDINATOR_NOT_AVAILABLE", 29: "TOPIC_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 40: "INVALID_CONFIG", 44: "POLICY_VIOLATION",
  45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 59: "UNKNOWN_PRODUCER_ID", 76: "UNSUPPORTED_COMPRESSION_TYPE", 87: "INVALID_RECORD",
};
const units = ["B", "kB", "MB", "GB", "TB"];

export const count = (value) => whole.format(Math.round(value ?? 0));

/** A rate or another number, with three digits that mean something. */
export function rate(value) {
  if (!value) return "0";
  if (value >= 100) return whole.format(Math.round(value));
  return value < 0.1 ? "< 0.1" : String(Number(value.toPrecision(3)));
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export const byteRate = (value) => `${bytes(value ?? 0)}/s`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "none";
  if (seconds >= 30) return "over 30 s";
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  const ms = seconds * 1000;
  return `${ms >= 100 ? Math.round(ms) : ms.toFixed(1)} ms`;
}

export function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export const share = (part, all) => (all ? `${((100 * part) / all).toPrecision(3)} %` : "");
export const time = (at) => clock.format(at * 1000);
/** A time of any day: rows of several days would look like one evening without it. */
export const stamp = (at) => dated.format(at * 1000);
/** An error code with Kafka's name for it. */
export const codeName = (code) => (codes[code] ? `${code} ${codes[code]}` : String(code));
export const hourMinute = (at) => short.format(at * 1000);
export const moment = (at) => `${new Date(at * 1000).toLocaleString("en-GB")} ${zone}`;
