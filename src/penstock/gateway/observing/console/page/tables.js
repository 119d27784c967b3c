// Elements made of text only, and tables whose rows stay the same elements while they change.

/** Make an element. Text is never more than text, whoever wrote it. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((one) => one !== null && one !== undefined && one !== ""));
  return element;
}

/** A name that somebody else chose: it breaks anywhere, and does not turn the text around it. */
export const given = (text, name = "span", more = "") => make(name, { class: `given ${more}`.trim() }, text);

/** A name in one line, which is cut in the middle where there is no room: names often differ at their ends. */
export function cut(text) {
  const tail = text.length < 24 ? 0 : 12;
  return make("span", { class: "cut" }, make("span", { class: "head" }, text.slice(0, text.length - tail)), make("span", { class: "tail" }, text.slice(text.length - tail)));
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Put the children in place of those that there are, where they differ. */
export function setChildren(element, ...children) {
  const made = make(element.localName, {}, ...children);
  if (made.innerHTML !== element.innerHTML) element.replaceChildren(...made.childNodes);
}

/**
 * Show a row for each item, in their order. Rows of items that stay are moved, not made anew.
 * @param body the element that has the rows
 * @param items what to show
 * @param key what tells items apart
 * @param fill makes or changes the row of an item: it gets the item, and the row or null
 */
export function showRows(body, items, key, fill) {
  const rows = (body.rowsByKey ??= new Map());
  const kept = new Set();
  let next = body.firstElementChild;
  for (const item of items) {
    const name = key(item);
    kept.add(name);
    const before = rows.get(name) ?? null;
    const row = fill(item, before) ?? before;
    rows.set(name, row);
    if (row === next) next = next.nextElementSibling;
    else body.insertBefore(row, next);
  }
  for (const [name, row] of rows) {
    if (!kept.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
}
