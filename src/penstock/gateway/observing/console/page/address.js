// What the reader has chosen stands in the address, so that it can be sent to somebody else.

const TEXT_MAX = 300;

/** Read what was chosen; unknown names are left out. */
export function readAddress(names) {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(names.map((name) => [name, given.has(name) ? given.get(name).slice(0, TEXT_MAX) : null]));
}

/** Write what is chosen, without a new entry in the history of the browser. */
export function writeAddress(values) {
  const wanted = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value) wanted.set(name, value);
  const search = wanted.toString();
  const address = `${location.pathname}${search ? `?${search}` : ""}${location.hash}`;
  if (address !== `${location.pathname}${location.search}${location.hash}`) history.replaceState(null, "", address);
}
