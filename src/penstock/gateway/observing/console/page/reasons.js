// Details of one reason: its history, topics and clients, what to do, and commands to copy.

import { Chart } from "./charts.js";
import { given, make, setText } from "./tables.js";
import { codeName, count, moment } from "./words.js";

const SHOWN = 20;
const WHAT_TO_DO = {
  87: "The records are bad, or the policy is too strict. Find the producer by its client id and address. To accept the records until then, set penstock.mode=observe for the topic.",
  44: "A policy refused the whole batch, the topic or the config. The reason says what is wrong.",
  7: "A policy could not decide, or no worker was free. Clients retry. Check the system that the reason names, such as a schema registry, and the workers below.",
  "-1": "The policy has a bug: it raised an exception, took too long, or ended its process. The log says where, in the event \"policy failed\".",
  2: "The batch arrived damaged. Clients retry. If it happens again, check the network and the client.",
  10: "The batch is larger than max.message.bytes after the interceptors.",
};

/** What to do about records that are stored in spite of the policy. */
const STORED = {
  marked: () => "The records are stored, with headers that name the policy and its reason. Find the producer by its client id and address.",
  quarantined: (row) => `The records are stored in the dead letter topic ${row.dead_letter_topic}. Find the producer by its client id and address. Then repair the records with an interceptor, or change the policy, and return them with penstock redrive.`,
};

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

/** Commands about a topic, and about its dead letters if there are some, for a shell. */
export function commands(file, topic, deadLetters) {
  const about = `${quoted(file)} --topic ${quoted(topic)}`;
  const redrive = `penstock redrive ${quoted(file)} --from ${quoted(deadLetters ?? "")} --to ${quoted(topic)}`;
  return [
    ...(deadLetters ? [
      ["count the dead letters that would be accepted now", `${redrive} --dry-run`],
      ["return the dead letters that are accepted now", redrive],
    ] : []),
    ["check one record", `penstock explain ${about} --value '...'`],
    ["check the records of the last hour", `penstock check ${quoted(file)} --since 1h --topic ${quoted(topic)}`],
    ["check all stored records, on Spark", `penstock audit ${about} --report report`],
  ];
}

/** Show a dialog about a reason. */
export function showReason(dialog, row, rows, points, slots, gateway) {
  const same = rows.filter((one) => reasonOf(one) === reasonOf(row));
  const chart = new Chart("Times in ten seconds", [{ name: "times", class: "s-bad", of: (point) => point.times }], count);
  chart.draw(points, slots);
  const first = Math.min(...same.map((one) => one.first));
  const last = Math.max(...same.map((one) => one.last));
  const close = make("button", { type: "button", class: "close" }, "Close");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(
    close,
    make("h2", { id: "reason-title", class: "given" }, row.message || "(no message)"),
    make("p", { class: "note" }, `${row.policy || "the gateway itself"}, error ${codeName(row.code)}, first seen ${moment(first)}, last seen ${moment(last)}`),
    make("h3", {}, "What to do"),
    make("p", {}, STORED[row.outcome]?.(row) ?? WHAT_TO_DO[row.code] ?? "The reason says what is wrong."),
    make("div", { class: "columns" }, counted("Topics", same, (one) => one.topic),
      counted("Clients", same, (one) => [one.client ?? "(no client id)", one.principal, one.address].filter(Boolean).join(", "))),
    make("h3", {}, "History since this page was opened"), points.length ? chart.figure : make("p", { class: "note" }, "No data yet: there is a point every ten seconds."),
    make("h3", {}, "Commands"),
    ...commands(gateway.file, row.topic, row.dead_letter_topic).map(([what, text]) => command(what, text)),
  );
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
