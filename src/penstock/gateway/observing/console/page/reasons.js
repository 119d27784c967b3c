// Details of one reason: its history, topics and clients, what to do, and commands to copy.

import { Chart } from "./charts.js";
import { given, make, setText } from "./tables.js";
import { codeName, count, moment } from "./words.js";

const SHOWN = 20;
const WHAT_TO_DO = {
  87: "The records are bad, or the policy is too strict. Find the producer by its client id and address. To accept the records until then, set penstock.mode=observe for the topic.",
  44: "A policy refused the whole batch, the topic or the config. The reason says what is wrong.",
  7: "A policy could not decide, or no worker was free. Clients retry. Check the system that the reason names, such as a schema registry, and the workers below.",
  "-1": "The policy is broken: it raised an exception, took too long, or ended its process. None of these records is stored. Add the line below to the file and reload: then the policy only observes, and records are stored. Repair the policy, remove the line, and reload again.",
  2: "The batch arrived damaged. Clients retry. If it happens again, check the network and the client.",
  10: "The batch is larger than max.message.bytes after the interceptors.",
};

/** What to do about records that are stored in spite of the policy. */
const STORED = {
  marked: () => "The records are stored, with headers that name the policy and its reason. Find the producer by its client id and address.",
  quarantined: (row) => `The records are stored in the dead letter topic ${row.dead_letter_topic}. Find the producer by its client id and address. Then repair the records with an interceptor, or change the policy, and return them with penstock redrive.`,
};

/** Whether a policy failed, not a producer: 7 is for lack of a worker or of what a policy needs, and passes. */
export const isBroken = (row) => row.outcome === "failed" && row.code === -1;

/** Where a policy failed: the file and line that raised the exception; empty where there is none, as at a deadline. */
export const placeOf = (row) => row.detail?.split(" < ")[0] ?? "";

/** The command that brings the dead letters of a row back. */
export const redriving = (file, row) => `penstock redrive ${quoted(file)} --from ${quoted(row.dead_letter_topic)} --to ${quoted(row.topic)}`;

/** The line for the file that has a policy observe. */
export function observing(row, isNamed) {
  return isNamed ? `policies.${row.policy}.mode=observe` : `topics.${row.topic}.penstock.mode=observe`;
}

/** Whether the topic has the records, good and bad, so that they can be judged again. */
const isStored = (row) => row.observed || row.outcome === "marked";

/** Tells reasons apart: a reason has a row for each topic and client. */
export const reasonOf = (row) => JSON.stringify([row.policy, row.code, row.message, row.observed, row.outcome]);

/** How often each reason was seen, every ten seconds since the page was opened. */
export class Histories {
  constructor() {
    this.points = new Map();
    this.before = new Map();
  }

  /** Take the rows at a moment. The first time there is nothing to compare them with. */
  take(rows, at, slots) {
    const totals = new Map();
    for (const row of rows) totals.set(reasonOf(row), (totals.get(reasonOf(row)) ?? 0) + row.count);
    for (const [reason, total] of totals) {
      const before = this.before.get(reason);
      const times = before === undefined || total < before ? total : total - before;
      if (this.before.size || before !== undefined) {
        this.points.set(reason, [...(this.points.get(reason) ?? []), { at, times }].slice(-slots));
      }
    }
    for (const reason of this.points.keys()) if (!totals.has(reason)) this.points.delete(reason);
    this.before = totals;
  }

  of(reason) {
    return this.points.get(reason) ?? [];
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** From where the audit trail is read: since the reason was first seen, a day at most. */
const since = (row) => new Date(1000 * Math.max(row.first - 1, row.last - 86_400)).toISOString().replace(/\.\d+Z$/, "Z");

/**
 * Commands about the reason of a row, for a shell. What is refused is not stored: of that only the audit trail knows.
 * @param more what else is known: `isNamed`, whether the policy has a name in the file; `hasTrail`, whether there is an audit trail
 */
export function commands(file, row, { isNamed, hasTrail }) {
  const topic = row.topic;
  const about = `${quoted(file)} --topic ${quoted(topic)}`;
  return [
    ...(isBroken(row) && !row.observed && row.partition !== null ? [
      ["have the policy only observe: a line for the file", observing(row, isNamed)],
      ["reload the file", "systemctl reload penstock"],
    ] : []),
    ...(row.dead_letter_topic ? [
      ["count the dead letters that would be accepted now", `${redriving(file, row)} --dry-run`],
      ["return the dead letters that are accepted now", redriving(file, row)],
    ] : []),
    ...(row.partition === null ? [] : [["check one record", `penstock explain ${about} --value '...'`]]),
    ...(hasTrail && !row.observed ? [
      ["list refusals by topic, policy, reason, client and time", `penstock audit ${quoted(file)} --trail --from ${since(row)} --report trail`],
    ] : []),
    ...(isStored(row) && row.partition !== null ? [
      ["check the records of the last hour", `penstock check ${quoted(file)} --since 1h --topic ${quoted(topic)}`],
      ["check all stored records, on Spark", `penstock audit ${about} --report report`],
    ] : []),
  ];
}

/** Show a dialog about a reason. */
export function showReason(dialog, row, rows, points, slots, gateway, more) {
  const same = rows.filter((one) => reasonOf(one) === reasonOf(row));
  const chart = new Chart("Times in ten seconds", [{ name: "times", class: "s-bad", of: (point) => point.times }], count);
  chart.draw(points, slots);
  const first = Math.min(...same.map((one) => one.first));
  const last = Math.max(...same.map((one) => one.last));
  const close = make("button", { type: "button", class: "close" }, "Close");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(...[
    close,
    make("h2", { id: "reason-title", class: "given" }, row.message || "(no message)"),
    make("p", { class: "note" }, `${row.policy || "the gateway itself"}, error ${codeName(row.code)}, first seen ${moment(first)}, last seen ${moment(last)}`),
    make("h3", {}, "What to do"),
    make("p", {}, STORED[row.outcome]?.(row) ?? WHAT_TO_DO[row.code] ?? "The reason says what is wrong."),
    ...(row.detail ? [make("h3", {}, "Where it failed"), make("ul", { class: "plain" }, ...row.detail.split(" < ").map((frame) => given(frame, "li")))] : []),
    make("div", { class: "columns" }, counted("Topics", same, (one) => one.topic),
      counted("Clients", same, (one) => [one.client ?? "(no client id)", one.principal, one.address].filter(Boolean).join(", "))),
    make("h3", {}, "History since this page was opened"), points.length ? chart.figure : make("p", { class: "note" }, "No data yet: there is a point every ten seconds."),
    make("h3", {}, "Commands"),
    more.hasTrail || row.observed ? null : make("p", { class: "note" }, "The gateway keeps no list of refusals: set audit.topic or audit.file, and restart it."),
    ...commands(gateway.file, row, more).map(([what, text]) => command(what, text)),
  ].filter(Boolean));
  dialog.showModal();
}

function counted(title, rows, of) {
  const counts = new Map();
  for (const row of rows) counts.set(of(row), (counts.get(of(row)) ?? 0) + row.count);
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  const items = all.slice(0, SHOWN).map(([name, times]) => make("li", {}, given(name), " ", make("span", { class: "note" }, count(times))));
  const more = all.length > SHOWN ? make("li", { class: "note" }, `and ${count(all.length - SHOWN)} more`) : null;
  return make("div", {}, make("h3", {}, title), make("ul", { class: "plain" }, ...items, more));
}

function command(what, text) {
  const code = make("code", { class: "given" }, text);
  const button = make("button", { type: "button", "aria-label": `Copy the command to ${what}` }, "Copy");
  button.addEventListener("click", () => copy(code, button));
  return make("div", { class: "command" }, make("span", { class: "note" }, what), code, button);
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    setText(button, "Copied");
  } catch {
    // Without TLS, and not from this machine, a page may not write there: the reader can.
    getSelection().selectAllChildren(code);
    setText(button, "Selected");
  }
}
