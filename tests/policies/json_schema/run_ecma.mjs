// Writes in which of some texts Node.js finds many regular expressions of ECMA 262 (flag u).
//
//     node tests/policies/json_schema/run_ecma.mjs tests/policies/json_schema/ecma_verdicts.json

import { writeFileSync } from "node:fs";

const LETTERS = ["a", "b", "A", "0", "9", "_", "-", "/", ":", "é", "٣", "😀", " ", "&", "~", "@"];
const ESCAPES = [
  "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\0", "\\n", "\\t", "\\v", "\\f", "\\cA", "\\x61",
  "\\u0061", "\\u{61}", "\\u{1F600}", "\\uD83D\\uDE00", "\\ud800", "\\.", "\\/", "\\[", "\\]",
  "\\^", "\\$", "\\|", "\\\\", "\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{Script=Greek}",
];
const IN_BRACKETS = [
  "\\b", "\\-", "[", "&&", "~~", "--", "-", "a-z", "0-9", "\\0-\\x1f", "\\u{1F600}-\\u{1F64F}",
  "\\uD83D\\uDE00-\\uD83D\\uDE4F", "\\ud800-\\udfff", "^", ".", "$", "(",
];
const ASSERTIONS = ["^", "$", "\\b", "\\B"];
const QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??"];
const GROUPS = ["(", "(?:", "(?<n>", "(?=", "(?!", "(?<=", "(?<!"];
const TEXTS = [
  "", "a", "b", "ab", "aa", "A0", "0", "٣", "é", "a é", "éa", "😀", "a😀b", "\u0000", "\u0001",
  "\b", "\n", "a\nb", "\r", "\u2028", "-", "[", "]", "&", "~", "/", "a/b", "_9", ":", "Ω", "aé",
  "  ", "^", "$.", "()", "u{61}", "\u001f", "\ufeff", "a-b",
];
const EXAMPLES = [
  "^[^/\\0]+$", "[^]", "[]", "[\\b]", "^(?<year>a)\\k<year>$", "(a)\\1", "(?<=\\w)b", "^(?=.*\\d)",
  "^(?!\\s)", "[[a-z]", "[a&&b]", "\\bé", "\\b0", "a\\B", "^.$", "(?<n>a|b)\\k<n>0?",
  "(a)(?:\\1)2?", "^\\S+$", "[^\\W]", "[^\\D\\s]", "(?<n>(?:a|(b)))\\k<n>\\b",
];
const COUNT = 1500;

let state = 262n;

function random(below) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(below));
}

const of = (list) => list[random(list.length)];

function member() {
  return random(2) ? of(LETTERS) : random(2) ? of(ESCAPES) : of(IN_BRACKETS);
}

function brackets() {
  return (random(3) ? "[" : "[^") + Array.from({ length: random(4) }, member).join("") + "]";
}

function group(depth) {
  const start = of(GROUPS);
  const back = start === "(?<n>" && random(2) ? "\\k<n>" : "";
  return start + sequence(depth - 1) + ")" + back;
}

function atom(depth) {
  const kind = random(10);
  if (kind < 3) return of(LETTERS);
  if (kind < 5) return of(ESCAPES);
  if (kind < 7) return brackets();
  return kind < 8 || !depth ? "." : group(depth);
}

function term(depth) {
  const kind = random(14);
  return kind ? atom(depth) + (kind < 4 ? of(QUANTIFIERS) : "") : of(ASSERTIONS);
}

function sequence(depth) {
  const terms = Array.from({ length: 1 + random(3) }, () => term(depth)).join("");
  return random(6) ? terms : `${terms}|${term(depth)}`;
}

function isValid(pattern) {
  try {
    return Boolean(new RegExp(pattern, "u"));
  } catch {
    return false;
  }
}

// At each character: without the flag y, V8 also looks between the halves of a surrogate pair.
function isIn(pattern, text) {
  const regex = new RegExp(pattern, "uy");
  let at = 0;
  for (const character of [...text, ""]) {
    regex.lastIndex = at;
    if (regex.test(text)) return true;
    at += character.length;
  }
  return false;
}

const patterns = new Set(EXAMPLES);
while (patterns.size < COUNT) {
  const pattern = sequence(2);
  if (isValid(pattern)) patterns.add(pattern);
}
const verdict = (pattern) => TEXTS.map((text) => Number(isIn(pattern, text))).join("");
const verdicts = Object.fromEntries([...patterns].map((pattern) => [pattern, verdict(pattern)]));
writeFileSync(process.argv[2], JSON.stringify({ texts: TEXTS, verdicts }, null, 1) + "\n");
