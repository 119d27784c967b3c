// A line chart of the last hour in SVG: drawn again every ten seconds, read by pointer, keys or table.

import { make, setChildren, setText } from "./tables.js";
import { hourMinute, time, zone } from "./words.js";

const WIDTH = 1000;
const HEIGHT = 100;
const ROWS_EVERY = 30;
const nice = [1, 2, 2.5, 5, 10];

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The next round number, so that the scale does not change with every point. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * nice.find((one) => one * power >= value * 0.9999);
}

export class Chart {
  /**
   * @param title what is drawn
   * @param series each with a name, a class for its colour, and `of`, which reads it from a point
   * @param words turns a value into text
   */
  constructor(title, series, words) {
    this.title = title;
    this.series = series;
    this.words = words;
    this.points = [];
    this.slots = 360;
    this.at = null;
    this.keys = series.map((one) => make("span", { class: "key" }, sample(one.class), make("span")));
    this.caption = make("figcaption", {}, make("strong", {}, title), ...this.keys);
    this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: "0" });
    this.most = make("span", { class: "most", "aria-hidden": "true" });
    this.times = make("div", { class: "times", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map(() => make("span")));
    this.body = make("tbody");
    const heads = [`time (${zone})`, ...series.map((one) => one.name)].map((name, i) => make("th", { scope: "col", class: i ? "n" : null }, name));
    this.table = make("details", {}, make("summary", {}, "As a table"),
      make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": title }, make("table", {},
        make("caption", { class: "unseen" }, `${title}, every five minutes`), make("thead", {}, make("tr", {}, ...heads)), this.body)));
    this.figure = make("figure", {}, this.caption, make("div", { class: "plot" }, this.svg, this.most), this.times, this.table);
    this.table.addEventListener("toggle", () => this.drawTable());
    this.svg.addEventListener("pointermove", (event) => this.pointAt(event));
    this.svg.addEventListener("pointerleave", () => this.moveTo(null));
    this.svg.addEventListener("blur", () => this.moveTo(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  draw(points, slots) {
    this.points = points;
    this.slots = slots;
    const values = this.series.flatMap((one) => points.map(one.of)).filter((value) => value !== null && value !== undefined);
    this.top = roundUp(Math.max(0, ...values));
    const lines = this.series.map((one) => svg("path", { class: `line ${one.class}`, d: this.path(one.of) }));
    const grid = svg("path", { class: "grid", d: `M0 ${HEIGHT / 2}H${WIDTH}M0 0H${WIDTH}` });
    this.svg.replaceChildren(grid, ...lines);
    setText(this.most, values.length ? this.words(this.top) : "");
    this.drawTimes();
    if (this.at !== null) this.moveTo(Math.min(this.at, points.length - 1));
    else this.tell(points.at(-1), "");
    if (this.table.open) this.drawTable();
    this.svg.setAttribute("aria-label", this.inWords());
  }

  x(index) {
    return ((this.slots - this.points.length + index + 0.5) / this.slots) * WIDTH;
  }

  path(of) {
    let drawn = "";
    let pen = "M";
    this.points.forEach((point, index) => {
      const value = of(point);
      if (value === null || value === undefined) {
        pen = "M";
        return;
      }
      const x = this.x(index).toFixed(1);
      // A point alone would not be seen.
      drawn += `${pen}${x} ${(HEIGHT - (value / this.top) * HEIGHT).toFixed(2)}${pen === "M" ? "h.01" : ""}`;
      pen = "L";
    });
    return drawn;
  }

  drawTimes() {
    const last = this.points.at(-1)?.at ?? Date.now() / 1000;
    const from = last - this.slots * 10;
    [...this.times.children].forEach((one, i) => setText(one, `${hourMinute(from + (i / 4) * (last - from))}${i ? "" : ` ${zone}`}`));
  }

  drawTable() {
    if (!this.table.open) return;
    const chosen = this.points.filter((_, index) => (this.points.length - 1 - index) % ROWS_EVERY === 0).reverse();
    setChildren(this.body, ...chosen.map((point) => make("tr", {}, make("th", { scope: "row" }, time(point.at)),
      ...this.series.map((one) => make("td", { class: "n" }, this.words(one.of(point)))))));
  }

  inWords() {
    const last = this.points.at(-1);
    if (!last) return `${this.title}: no point yet`;
    const now = this.series.map((one) => `${one.name} ${this.words(one.of(last))}`).join(", ");
    return `${this.title}: ${now}; the scale ends at ${this.words(this.top)}. Arrow keys move through the hour.`;
  }

  tell(point, when) {
    this.series.forEach((one, i) => setText(this.keys[i].lastChild, `${one.name} ${point ? this.words(one.of(point)) : "none"}`));
    setText(this.caption.firstChild, when ? `${this.title} at ${when}` : this.title);
  }

  pointAt(event) {
    const box = this.svg.getBoundingClientRect();
    const slot = Math.floor(((event.clientX - box.left) / box.width) * this.slots);
    const index = slot - (this.slots - this.points.length);
    this.moveTo(index >= 0 && index < this.points.length ? index : null);
  }

  step(event) {
    const last = this.points.length - 1;
    const from = this.at ?? last + 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, PageUp: from - 30, PageDown: from + 30 }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.moveTo(Math.min(last, Math.max(0, to)));
    this.svg.setAttribute("aria-label", `${time(this.points[this.at].at)}: ${this.series.map((one) => `${one.name} ${this.words(one.of(this.points[this.at]))}`).join(", ")}`);
  }

  moveTo(index) {
    this.at = index;
    this.svg.querySelector(".cursor")?.remove();
    if (index === null) {
      this.tell(this.points.at(-1), "");
      return;
    }
    const x = this.x(index).toFixed(1);
    this.svg.append(svg("path", { class: "cursor", d: `M${x} 0V${HEIGHT}` }));
    this.tell(this.points[index], time(this.points[index].at));
  }
}

function sample(name) {
  return svg("svg", { viewBox: "0 0 20 8", "aria-hidden": "true" }, svg("path", { class: `line ${name}`, d: "M0 4H20" }));
}
