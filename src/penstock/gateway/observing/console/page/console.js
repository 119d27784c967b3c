// The page: data from the gateway (server-sent events), and where it is shown.

import { readAddress, writeAddress } from "./address.js";
import { Chart, svg } from "./charts.js";
import { asCsv, asJson, save } from "./export.js";
import { Histories, isBroken, placeOf, reasonOf, redriving, showReason } from "./reasons.js";
import { cut, given, make, setChildren, setText, showRows } from "./tables.js";
import { byteRate, bytes, codeName, count, duration, moment, rate, share, span, stamp, zone } from "./words.js";

const ROWS_SHOWN = 25;
const SHADOW_ROWS_SHOWN = 100;
const ROWS_KEPT = 600;
const TOPICS_SHOWN = 50;
const FACET_ROWS = 5;
const PLANS_EVERY_MS = 30_000;
const AGAIN_MS = 5_000;
const DRAWN_EVERY_MS = 200;
const MISSED_SHOWN_MS = 15_000;
const WOULD = ["would_refuse", "would_fail", "would_postpone", "would_drop", "would_change", "not_observed"];
const KEPT = ["marked", "quarantined"];
const NOT_STORED = ["refused", "failed", "postponed"];
const REFUSED = ["refused", "postponed"];
const WOULD_REFUSE = ["would_refuse", "would_postpone"];
const FAILED = ["failed", "would_fail"];
const RECENT_MINUTES = 5;
/** So long rows keep their places, so that they can be read and clicked. */
const PLACES_S = 10;
/** Why workers ended, in words: see WorkerEnd. */
const ENDS = {
  deadline: "killed at the deadline", load_timeout: "killed because loading took too long", protocol: "killed after a malformed message",
  stalled: "killed because they began no batch", memory: "out of memory", not_started: "not started", not_loaded: "failed to load", crashed: "crashed",
};

const $ = (id) => document.getElementById(id);
const told = { now: null, gateway: null, rows: new Map(), others: 0, points: [], slots: 360, reload: null, plans: null };
const view = { paused: false, frozen: [], facets: [null, null, null, null], rows: ROWS_SHOWN, topics: TOPICS_SHOWN, skew: 0, known: 0 };
const CHOSEN = ["topic", "policy", "reason", "client"];
const histories = new Histories();
const dirty = new Set();

// Data from the gateway

const events = {
  state(data) {
    // Refusals from before this page, or before the gateway was started again, are not new.
    if (told.gateway?.started !== data.gateway.started) view.known = Math.max(0, ...data.refusals.rows.map((row) => row.id));
    told.gateway = data.gateway;
    told.rows = new Map(data.refusals.rows.reverse().map((row) => [row.id, row]));
    told.others = data.refusals.others;
    told.points = data.history.points;
    told.slots = data.history.points_max;
    told.reload = data.reload;
    events.figures(data);
    mark("about", "refusals", "charts", "reload");
    readPlans();
  },
  figures(data) {
    told.now = data;
    view.skew = data.at - Date.now() / 1000;
    mark("now", "shadow", "plans", "gateway", "gateways");
    mark("refusals"); // time passes: rates change, and rows leave what is selected
    if (!told.plans?.topics && data.ready.is_ready) readPlans();
  },
  refusals(data) {
    told.others = data.others;
    for (const row of data.rows) {
      told.rows.delete(row.id);
      told.rows.set(row.id, row);
    }
    if (told.rows.size > ROWS_KEPT) {
      told.rows = new Map([...told.rows].slice(-ROWS_KEPT / 2));
    }
    mark("refusals", "shadow", "now");
  },
  point(data) {
    if (told.points.some((one) => one.at === data.at)) return; // it was in the state, too
    told.points = [...told.points, data].slice(-told.slots);
    histories.take(told.rows.values(), data.at, told.slots);
    mark("charts");
  },
  reload(data) {
    told.reload = data;
    mark("reload", "now");
    readPlans();
  },
  missed(data) {
    const what = data.count === 1 ? "One update was" : `${count(data.count)} updates were`;
    setText($("missed"), `${what} left out, because this page was slow; it shows what is so now.`);
    $("missed").hidden = false;
    setTimeout(() => ($("missed").hidden = true), MISSED_SHOWN_MS);
    readState();
  },
};

function connect() {
  const source = new EventSource("api/events");
  source.addEventListener("open", () => setConnection("live", "live"));
  for (const [name, take] of Object.entries(events)) {
    source.addEventListener(name, (event) => take(JSON.parse(event.data)));
  }
  source.addEventListener("error", () => {
    setConnection("lost", "connection lost, reconnecting");
    if (source.readyState === EventSource.CLOSED) again();
  });
}

/** Ask as often as one may while there is no room for one more subscriber. */
async function again() {
  if (await readState()) setConnection("polling", "too many pages are open: updated every few seconds");
  setTimeout(connect, AGAIN_MS);
}

async function readState() {
  const data = await read("api/state");
  if (data) events.state(data);
  return data !== null;
}

async function readPlans() {
  if (document.hidden) return;
  const data = await read("api/topics");
  if (!data) return;
  told.plans = data;
  mark("plans");
}

async function read(path) {
  try {
    const response = await fetch(path, { headers: { Accept: "application/json" } });
    if (response.status === 401) location.reload();
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

function setConnection(is, text) {
  $("connection").dataset.is = is;
  setText($("connection"), text);
}

// The display

function mark(...parts) {
  const first = !dirty.size;
  parts.forEach((part) => dirty.add(part));
  if (first) setTimeout(() => requestAnimationFrame(draw), DRAWN_EVERY_MS);
}

function draw() {
  const parts = [...dirty];
  dirty.clear();
  for (const part of parts) show[part]();
}

const shownAt = () => Date.now() / 1000 + view.skew;

const show = {
  about() {
    const about = told.gateway;
    const others = told.now.gateways.length - 1;
    setText($("where"), `${about.host}, ${about.listener}${others > 0 ? `, and ${count(others)} more` : ""}`);
    document.title = `Penstock ${about.host}`;
    setChildren($("about"), ...pairs([
      ["file", given(about.file)],
      ["listeners", given(about.listener)],
      ["upstream", given(about.upstream)],
      ["version", `${about.version}, Python ${about.python}`],
      ["started", moment(about.started)],
    ]));
  },

  now() {
    const { rates, connections, held_bytes: held, workers, ready } = told.now;
    const refused = sum(rates.records, REFUSED);
    const broken = newest().filter((row) => isBroken(row) && recent(row));
    const would = sum(rates.records, WOULD_REFUSE);
    const all = told.now.totals;
    const held_share = held.share ?? (held.limit ? held.held / held.limit : 0); // of several gateways the highest
    const failedReload = told.reload && !told.reload.worked;
    const judging = (workers.states.ready ?? 0) + (workers.states.blocked ?? 0);
    setChildren($("now"), ...[
      failedTile(rates.records, told.now.totals, broken),
      tile("State", stateOf(told.now), broken.length ? "a policy is broken" : failedReload ? "the last reload failed" : ready.troubles.length ? "with troubles" : `for ${span(shownAt() - told.gateway.started)}`, allReady(told.now) && !failedReload && !broken.length ? "good" : "bad", !allReady(told.now) || failedReload || broken.length > 0),
      tile("Accepted records/s", rate(rates.records.accepted), `${count(all.accepted)} since the start`),
      tile("Refused records/s", rate(refused), `${count(sum(all, REFUSED))} since the start`, refused ? "bad" : ""),
      sum(all, KEPT) ? tile("Marked or in quarantine/s", rate(sum(rates.records, KEPT)), `${count(sum(all, KEPT))} since the start`, "would") : null,
      sum(all, WOULD) ? tile("Would be refused/s", rate(would), `${count(sum(all, WOULD_REFUSE))} since the start`, would ? "would" : "") : null,
      tile("Requests/s", rate(rates.requests), `${byteRate(rates.client_bytes)} in, ${byteRate(rates.broker_bytes)} out`),
      tile("Produce, median", duration(rates.produce.p50), `99 %: ${duration(rates.produce.p99)}`),
      tile("Judging, median", duration(rates.judging.p50), `99 %: ${duration(rates.judging.p99)}`),
      tile("Connections", count(sum(connections.states)), connections.states.paused ? `${count(connections.states.paused)} paused` : `of ${limit(connections.limit)}`),
      tile("Held memory", bytes(held.held), `of ${bytes(held.limit)}`, held_share > 0.9 ? "bad" : "", held_share > 0.9),
      tile("Workers", count(judging), `${count(workers.waiting)} batches wait`, workers.states.blocked ? "would" : ""),
    ].filter(Boolean));
    const troubles = [...ready.missing, ...ready.troubles];
    if (failedReload) troubles.unshift(`The reload at ${moment(told.reload.at)} failed, and the old policies stay in force: ${told.reload.why_not}`);
    $("troubles").hidden = !troubles.length;
    setChildren($("troubles"), ...troubles.map((text) => given(text, "li")));
  },

  refusals() {
    if (view.paused) return;
    const rows = enforced();
    const found = inPlaces(rows.filter((row) => matches(row)));
    setText($("no-refusals"), "Nothing has been refused since the gateway started.");
    $("no-refusals").hidden = rows.length > 0;
    $("refusal-rows").parentElement.hidden = !rows.length;
    showFacets(rows);
    showRows($("refusal-rows").tBodies[0], found.slice(0, view.rows), keyOf, fillRefusal);
    const left = [];
    if (!found.length && rows.length) left.push("No refusal matches.");
    const hiddenRows = found.length - view.rows;
    $("more-reasons").hidden = hiddenRows <= 0;
    setText($("more-reasons"), `Show ${count(Math.min(hiddenRows, 4 * ROWS_SHOWN))} more of ${count(hiddenRows)} reasons`);
    for (const button of [$("as-csv"), $("as-json")]) button.disabled = !found.length;
    if (told.others) left.push(`${count(told.others)} refusals had too many different reasons for a row each.`);
    setText($("more-refusals"), left.join(" "));
    $("more-refusals").hidden = !left.length;
    view.known = Math.max(view.known, ...rows.map((row) => row.id));
  },

  charts() {
    charts.forEach((chart) => chart.draw(told.points, told.slots));
  },

  shadow() {
    const topics = told.now.topics.filter((one) => sum(one.records, WOULD) > 0);
    const rows = inPlaces(newest().filter((row) => row.observed));
    $("shadow-side").hidden = !(topics.length || rows.length);
    $("no-shadow").hidden = !$("shadow-side").hidden;
    showRows($("shadow-topics").tBodies[0], topics, (one) => one.topic, ({ topic, records }, row) => {
      row ??= make("tr", { role: "row" }, make("th", { scope: "row", class: "given", role: "rowheader" }, topic),
        ...SHADOW_COLUMNS.map((name) => make("td", { class: "n", role: "cell", "data-label": name })));
      const lost = sum(records, ["would_refuse", "would_fail"]);
      const judged = lost + sum(records, ["accepted", "would_postpone", "would_drop", "would_change"]);
      const cells = [records.accepted, ...WOULD.map((one) => records[one])].map((one) => (one ? count(one) : "0"));
      [...cells, share(lost, judged) || "none"].forEach((text, i) => setText(row.cells[i + 1], text));
      row.cells[8].className = lost ? "n would" : "n";
      return row;
    });
    showRows($("shadow-rows").tBodies[0], rows.slice(0, SHADOW_ROWS_SHOWN), keyOf, (row, before) => {
      const line = before ?? make("tr", { class: isNew(row) ? "fresh" : null }, make("td", { class: "seen" }), why(row, true), make("td", { class: "n" }));
      setText(line.cells[0], stamp(row.last));
      setText(line.cells[2], count(row.count));
      return line;
    });
  },

  plans() {
    if (!told.plans?.topics) return;
    const { topics, patterns, topics_without_policy: without, topics_not_known: unknown, topic_policies: forTopics } = told.plans;
    const wanted = $("topic-filter").value.trim().toLowerCase();
    const found = topics.filter((one) => !wanted || JSON.stringify(one).toLowerCase().includes(wanted));
    const counts = new Map(told.now?.topics.map((one) => [one.topic, one.records]));
    showRows($("plans").tBodies[0], found.slice(0, view.topics), (one) => one.topic, (one, row) => {
      row ??= planRow(make("td", { class: "n wide", role: "cell" }), make("td", { class: "n wide", role: "cell" }));
      fillPlan(row, one, one.topic);
      const records = counts.get(one.topic) ?? {};
      setText(row.cells[3], count(records.accepted));
      setText(row.cells[4], count(sum(records, [...NOT_STORED, "dropped"])));
      return row;
    });
    setChildren($("patterns").querySelector("tbody"), ...patterns.map((one) => {
      const row = planRow();
      fillPlan(row, one, one.pattern);
      return row;
    }));
    $("patterns").hidden = !patterns.length;
    const left = found.length - view.topics;
    $("more-topics").hidden = left <= 0;
    setText($("more-topics"), `Show ${count(Math.min(left, 4 * TOPICS_SHOWN))} more of ${count(left)} topics`);
    const notes = [`${count(topics.length)} topics have policies or settings of their own, ${count(without)} others have none.`];
    if (topics.length >= told.plans.topics_max) notes.push(`No more than ${count(told.plans.topics_max)} are shown.`);
    if (unknown) notes.push(`The cluster's topics are not known: ${unknown}.`);
    for (const one of forTopics) notes.push(`${one.key} is ${one.class}${one.observed ? ", observed" : ""}.`);
    setText($("topics-note"), notes.join(" "));
  },

  gateway() {
    const { workers, connections, brokers, restarts, audit_trail: trail, producers, settings_generation: generation } = told.now;
    const ended = Object.entries(restarts).filter(([, times]) => times);
    setChildren($("workers"), ...pairs([
      ...Object.entries(workers.states).map(([state, number]) => [state, count(number)]),
      ["at most", count(workers.limit)],
      ["batches waiting", count(workers.waiting)],
      ["batches being judged", count(workers.sent)],
      ["ended unexpectedly", ended.length ? ended.map(([cause, times]) => `${count(times)} ${ENDS[cause] ?? cause}`).join(", ") : "none"],
    ]));
    setChildren($("clients"), ...pairs([
      ...Object.entries(connections.states).filter(([state, number]) => number || state === "open").map(([state, number]) => [state, count(number)]),
      producers ? ["producers with dropped records", count(producers)] : null,
      generation ? ["settings of topics read up to", count(generation)] : null,
      trail ? ["audit trail", `${count(trail.written)} written, ${count(trail.left_out)} left out`] : null,
    ]));
    showRows($("brokers").tBodies[0], brokers, (one) => one.node, (one, row) => {
      row ??= make("tr", {}, make("th", { scope: "row", class: "n" }, String(one.node)), make("td", { class: "given" }), make("td", { class: "given" }), make("td", { class: "n wide" }));
      setText(row.cells[1], one.address);
      setText(row.cells[2], one.reachable ? "reachable" : `cannot be reached: ${one.why_not}`);
      row.cells[2].className = one.reachable ? "given good" : "given bad";
      setText(row.cells[3], `${span(one.seconds_ago)} ago`);
      return row;
    });
  },

  gateways() {
    const all = told.now.gateways;
    $("all-gateways").hidden = all.length < 2;
    showRows($("gateways").tBodies[0], all, (one) => one.name, (one, row) => {
      row ??= make("tr", { role: "row" }, make("th", { scope: "row", class: "given", role: "rowheader" }),
        ...GATEWAY_COLUMNS.map((name, i) => make("td", { class: i > 2 ? "n" : "given", role: "cell", "data-label": name })));
      const about = one.gateway;
      setChildren(row.cells[0], given(one.name), about ? given(`${about.host}, ${about.listener}`, "small") : null);
      const [state, is] = gatewayState(one);
      setText(row.cells[1], state);
      row.cells[1].className = `given ${is}`;
      const cells = about ? [`${about.version}, Python ${about.python}`, moment(about.started), count(one.connections), count(sum(one.records, NOT_STORED))] : ["", "", "", ""];
      cells.forEach((text, i) => setText(row.cells[i + 2], text));
      return row;
    });
  },

  reload() {
    const last = told.reload;
    if (!last) setText($("reload"), "None since the start.");
    else if (last.worked) setChildren($("reload"), make("span", { class: "good" }, "worked"), ` at ${moment(last.at)}`);
    else setChildren($("reload"), make("span", { class: "bad" }, "failed"), ` at ${moment(last.at)}, the old policies stay in force: `, given(last.why_not));
  },
};

// Gateways

const GATEWAY_COLUMNS = ["state", "version", "started", "connections", "not stored"];
const counted = (now) => now.gateways.filter((one) => !one.double);
const serves = (one) => one.answers && one.ready.is_ready;
const allReady = (now) => (now.gateways.length > 1 ? counted(now).every(serves) : now.ready.is_ready);

function stateOf(now) {
  const all = counted(now);
  if (all.length > 1) return `${all.filter(serves).length} of ${all.length} ready`;
  return now.ready.is_ready ? "ready" : "not ready";
}

/** The state of one gateway in words, and its class. */
function gatewayState(one) {
  if (!one.answers) return [`does not answer${one.since ? ` since ${stamp(one.since)} ${zone}` : ""}: ${one.why_not}${one.answered ? `; its counts are of ${stamp(one.answered)} ${zone}` : ""}`, "bad"];
  if (one.double) return ["is another gateway of this list, and counts once", ""];
  if (!one.ready.is_ready) return [`not ready: ${one.ready.missing.join("; ")}`, "bad"];
  return one.reload && !one.reload.worked ? ["ready; its last reload failed", "bad"] : ["ready", "good"];
}

// Refusals

// Those that were seen last are last in the map. Times would not do: a clock may be set back.
const newest = () => [...told.rows.values()].reverse();
const enforced = () => newest().filter((row) => !row.observed);
// A gateway that was started again counts from one.
const places = new Map();
let placedAt = 0;

/** Sort rows by the count of the last five minutes, broken policies first; they change places only now and then. */
function inPlaces(rows) {
  const now = shownAt();
  if (now < placedAt || now >= placedAt + PLACES_S) {
    places.clear();
    placedAt = now;
  }
  for (const row of rows) if (!places.has(keyOf(row))) places.set(keyOf(row), [isBroken(row) && recent(row) ? 1 : 0, recent(row)]);
  const place = (row) => places.get(keyOf(row));
  return rows.toSorted((a, b) => place(b)[0] - place(a)[0] || place(b)[1] - place(a)[1] || b.id - a.id);
}

const keyOf = (row) => `${told.gateway.started}/${row.id}`;
const isNew = (row) => row.id > view.known;
const facets = [
  ["Topics", (row) => row.topic],
  ["Policies", (row) => row.policy || "(the gateway itself)"],
  ["Reasons", (row) => row.message || "(no message)"],
  ["Clients", (row) => row.client ?? "(no client id)"],
];

const SHADOW_COLUMNS = ["accepted", "refused", "failed", "postponed", "dropped", "changed", "not judged", "lost"];

/** Whether a row is to be shown; but for the facet of an index, whose other values stay to be chosen. */
function matches(row, but = -1) {
  if (facets.some(([, of], index) => index !== but && view.facets[index] !== null && of(row) !== view.facets[index])) return false;
  const within = Number($("within").value);
  if (within && row.last < shownAt() - within) return false;
  const wanted = $("filter").value.trim().toLowerCase();
  return !wanted || [row.topic, row.policy, row.message, row.client, row.principal, row.address].some((one) => one?.toLowerCase().includes(wanted));
}

function fillRefusal(row, line) {
  line ??= make("tr", { class: isNew(row) ? "fresh" : null },
    make("td", { class: "seen" }), make("td", { class: "seen wider" }), make("th", { scope: "row", class: "given wide" }, row.topic, row.partition === null ? null : make("small")),
    why(row, false), make("td", { class: "wide" }), make("td", { class: "n" }), make("td", { class: "n wide" }, make("span"), make("small")));
  const [seen, since, topic, , client, rateCell, times] = line.cells;
  setText(seen, stamp(row.last));
  seen.title = `first ${moment(row.first)}, last ${moment(row.last)}`;
  setText(since, stamp(row.first));
  if (row.partition !== null) setText(topic.lastElementChild, `partition ${row.partition}`);
  const from = [row.principal, row.address].filter(Boolean).join(", ");
  setChildren(client, row.client === null ? make("span", { class: "note" }, "(no client id)") : given(row.client), from ? given(from, "small") : null);
  const place = line.querySelector(".place");
  if (place) setText(place, placeOf(row) ? `at ${placeOf(row)}` : "");
  setText(rateCell, rate(aMinute(row)));
  setText(times.firstChild, count(row.count));
  setText(times.lastChild, row.partition === null ? "" : `${count(row.records)} records`);
  return line;
}

/** The cell with the message, and in small letters who decided; on a phone also where and whose. */
function why(row, always) {
  const outcome = row.outcome === "refused" ? "" : `${row.outcome}, `;
  const where = [row.topic, row.client ?? "no client id"].join(", ");
  const about = make("button", { type: "button", class: "reason", "aria-haspopup": "dialog" }, given(row.message || "(no message)"));
  about.addEventListener("click", () => showReason($("reason"), row, newest(), histories.of(reasonOf(row)), told.slots, told.gateway, { isNamed: isNamed(row), hasTrail: Boolean(told.now.audit_trail) }));
  return make("td", { class: "why" }, about,
    make("small", {}, `${outcome}${row.policy || "the gateway itself"}, error ${codeName(row.code)}`),
    row.outcome === "failed" ? given(placeOf(row) ? `at ${placeOf(row)}` : "", "small", "place") : null,
    row.outcome === "quarantined" && row.dead_letter_topic ? make("small", { class: "letters" }, "stored in ", given(row.dead_letter_topic), "; back: ", given(redriving(told.gateway.file, row), "code")) : null,
    given(where, "small", always ? "" : "narrow"));
}

function showFacets(rows) {
  if (!$("facets").children.length) {
    for (const [title] of facets) $("facets").append(make("div", {}, make("h3", {}, title), make("ul")));
  }
  $("facets").hidden = !rows.length;
  facets.forEach(([, of], index) => {
    const counts = new Map();
    for (const row of rows) if (matches(row, index)) counts.set(of(row), (counts.get(of(row)) ?? 0) + row.count);
    const most = Math.max(1, ...counts.values());
    const chosen = view.facets[index];
    const top = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, FACET_ROWS);
    if (chosen !== null && !top.some(([value]) => value === chosen)) top.push([chosen, counts.get(chosen) ?? 0]);
    showRows($("facets").children[index].lastChild, top, ([value]) => value, ([value, times], item) => {
      if (!item) {
        const button = make("button", { type: "button", title: value }, cut(value), make("span", { class: "count" }),
          svg("svg", { viewBox: "0 0 100 2", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { height: 2, width: 0 })));
        button.addEventListener("click", () => choose(index, value));
        item = make("li", {}, button);
      }
      const button = item.firstChild;
      button.setAttribute("aria-pressed", String(value === chosen));
      setText(button.children[1], count(times));
      button.querySelector("rect").setAttribute("width", ((100 * times) / most).toFixed(1));
      return item;
    });
  });
}

function choose(index, value) {
  view.facets[index] = view.facets[index] === value ? null : value;
  chosen();
}

/** Show what the reader has chosen, and keep it in the address. */
function chosen() {
  view.rows = ROWS_SHOWN;
  writeAddress({ ...Object.fromEntries(CHOSEN.map((name, index) => [name, view.facets[index]])), filter: $("filter").value.trim(), within: $("within").value });
  if (told.gateway) redrawRefusals();
}

function readChosen() {
  const given = readAddress([...CHOSEN, "filter", "within"]);
  view.facets = CHOSEN.map((name) => given[name]);
  $("filter").value = given.filter ?? "";
  $("within").value = [...$("within").options].some((one) => one.value === given.within) ? given.within : "";
}

/** The refusals that are shown, and those behind "Show more": as they are while it is paused. */
const exported = () => [...(view.paused ? view.frozen : told.rows).values()].reverse().filter((row) => !row.observed && matches(row));

/** What the reader asked for is shown at once, also while it is paused. */
function redrawRefusals() {
  const paused = view.paused;
  const live = told.rows;
  if (paused) told.rows = view.frozen;
  view.paused = false;
  show.refusals();
  view.paused = paused;
  told.rows = live;
}

// Plans

const planRow = (...more) => make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader" }), make("td", { role: "cell" }), make("td", { role: "cell" }), ...more);

function fillPlan(row, plan, name) {
  if (row.plan === plan) return;
  row.plan = plan;
  const tag = plan.observed ? make("span", { class: "tag would" }, "observed") : null;
  const unusable = plan.unusable ? given(plan.unusable, "small", "bad") : null;
  setChildren(row.cells[0], given(name), tag ? " " : null, tag, unusable);
  setChildren(row.cells[1], plan.policies.length
    ? make("ol", { class: "policies" }, ...plan.policies.map((one) => make("li", {}, given(one.class, "code"), " ", make("small", {}, one.judges))))
    : make("span", { class: "note" }, "none"));
  setChildren(row.cells[2], plan.settings.length
    ? make("ul", { class: "settings" }, ...plan.settings.map((one) => make("li", {},
        make("span", { class: "from", "data-is": one.from, title: one.line || "set through admin tools" }, one.from),
        given(`${one.key}=${one.value}`, "code"), one.from === "pattern" ? given(` ${one.line.slice(7, -one.key.length - 1)}`, "small") : null)))
    : make("span", { class: "note" }, "none"));
}

// Small parts

const sum = (counts, names = Object.keys(counts)) => names.reduce((all, name) => all + (counts[name] ?? 0), 0);
const limit = (value) => (value >= 2 ** 31 - 1 ? "no limit" : count(value));
const pairs = (rows) => rows.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);

function tile(name, value, then, kind = "", alarm = false) {
  return make("div", { class: alarm ? "alarm" : null }, make("dt", {}, name), make("dd", { class: kind || null }, value), make("dd", { class: "then" }, then));
}

/** The tile of failures, if there were any: another fault than a refusal, of others, and with other remedies. */
function failedTile(rates, totals, broken) {
  if (!sum(totals, FAILED) && !broken.length) return null;
  const latest = broken[0];
  const then = latest ? placeOf(latest) || latest.message : `${count(sum(totals, FAILED))} since the start`;
  const times = broken.reduce((all, row) => all + recent(row), 0);
  return tile(latest ? "Failed: the policy is broken" : "Failed records/s", latest ? `${count(times)} in 5 min` : rate(sum(rates, FAILED)), then, latest ? "bad" : "", Boolean(latest));
}

/** How often a row was seen in the last five minutes; of the first of them the part that is left. */
function recent(row) {
  const minutes = shownAt() / 60;
  return Math.round((row.minutes ?? []).reduce((all, [minute, times]) => all + times * Math.min(1, Math.max(0, minute + 1 - (minutes - RECENT_MINUTES))), 0));
}

/** How often a row was seen in a minute: of the last five, or since it was first seen. */
const aMinute = (row) => recent(row) / Math.min(RECENT_MINUTES, Math.max(1, (shownAt() - row.first) / 60));

/** Whether a policy has a name in the file, as the plan of a topic says. */
function isNamed(row) {
  const topics = told.plans?.topics ?? [];
  return topics.some((plan) => plan.policies.some((one) => one.key === "penstock.policies" && one.class.startsWith(`${row.policy} (`)));
}

const of = (...names) => (point) => sum(point.records, names);
const charts = [
  new Chart("Refused records a second", [
    { name: "refused", class: "s-bad", of: of(...REFUSED) },
    { name: "failed", class: "s-failed", of: of(...FAILED) },
    { name: "would be refused", class: "s-would", of: of(...WOULD_REFUSE) },
  ], rate),
  new Chart("Accepted records a second", [{ name: "accepted", class: "s-good", of: of("accepted") }], rate),
  new Chart("Produce requests", [
    { name: "99 %", class: "s-main", of: (point) => point.produce.p99 },
    { name: "median", class: "s-soft", of: (point) => point.produce.p50 },
  ], duration),
  new Chart("Their parts, 99 %", [
    { name: "judging", class: "s-bad", of: (point) => point.judging.p99 },
    { name: "waiting", class: "s-would", of: (point) => point.waiting.p99 },
    { name: "broker", class: "s-main", of: (point) => point.broker.p99 },
  ], duration),
];

$("charts").append(...charts.map((chart) => chart.figure));
$("filter").addEventListener("input", chosen);
$("within").addEventListener("change", chosen);
$("more-reasons").addEventListener("click", () => {
  view.rows += 4 * ROWS_SHOWN;
  redrawRefusals();
});
$("as-csv").addEventListener("click", () => save("refusals.csv", "text/csv", asCsv(exported())));
$("as-json").addEventListener("click", () => save("refusals.json", "application/json", asJson(exported())));
$("topic-filter").addEventListener("input", () => {
  view.topics = TOPICS_SHOWN;
  mark("plans");
});
$("more-topics").addEventListener("click", () => {
  view.topics += 4 * TOPICS_SHOWN;
  mark("plans");
});
$("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  view.frozen = new Map(told.rows);
  $("pause").setAttribute("aria-pressed", String(view.paused));
  mark("refusals");
});
document.addEventListener("visibilitychange", readPlans);
setInterval(readPlans, PLANS_EVERY_MS);
document.querySelectorAll(".zone").forEach((one) => setText(one, `(${zone})`));
document.querySelector("main").hidden = false;
setConnection("connecting", "connecting");
readChosen();
connect();
