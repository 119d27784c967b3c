// The refusals that are shown, as a file.

const COLUMNS = ["first", "last", "topic", "partition", "policy", "code", "outcome", "message", "client", "principal", "address", "count", "records"];

/** Programs for tables run what begins like a formula, and clients choose names. */
const inert = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);

function cell(name, value) {
  if (value === null || value === undefined) return "";
  if (name === "first" || name === "last") return new Date(value * 1000).toISOString();
  if (typeof value === "number") return String(value);
  return `"${inert(value).replaceAll('"', '""')}"`;
}

export function asCsv(rows) {
  const lines = rows.map((row) => COLUMNS.map((name) => cell(name, row[name])).join(","));
  return [COLUMNS.join(","), ...lines, ""].join("\r\n");
}

export const asJson = (rows) => `${JSON.stringify(rows, null, 2)}\n`;

/** Have the browser save a text. */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
