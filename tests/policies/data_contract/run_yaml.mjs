// Writes what a reader of YAML 1.2 (core schema) makes of many plain words; needs `npm install yaml`.
//
//     node tests/policies/data_contract/run_yaml.mjs tests/policies/data_contract/yaml_values.json

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { parse } = createRequire(`${process.cwd()}/`)("yaml");
const WORDS = [
  "NO", "No", "no", "yes", "Yes", "y", "n", "on", "Off", "true", "True", "TRUE", "tRUE", "false",
  "null", "Null", "NULL", "nULL", "~", "0", "-0", "+1", "007", "0o17", "0O17", "0x1F", "0xfg",
  "0b11", "1_000", "1:30", "08:30:00", "190:20:30", "2024-01-01", "2024-01-01T08:30:00Z", "1.5",
  "1.", ".5", "-.5", "1e3", "1E+3", "1e", "1.5e-3", "1_0.5", "12:30.5", "=", "v3.1.0", "1.0.0",
  "+.5", "0x", "0o8", "-0x1F", "+0o7", "e3", "1e+", "--1", "+-1", "00", "0.0", "1__0", "0o_7", "6e",
  "nan", "inf", "Infinity", "DE", "SE", "<", "9007199254740993", "18446744073709551616",
];
const SIGNS = `${"0123456789".repeat(3)}+-._:eExXoObTZnNyY`;
const COUNT = 1500;

let state = 12n;

function random(below) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(below));
}

const words = new Set(WORDS);
while (words.size < COUNT) {
  const word = Array.from({ length: 1 + random(7) }, () => SIGNS[random(SIGNS.length)]).join("");
  if (!/^[-:]|:$/.test(word)) words.add(word);
}

function written(value) {
  if (typeof value === "bigint") return ["int", String(value)];
  if (typeof value === "number") return ["float", String(value)];
  return [value === null ? "null" : typeof value, String(value)];
}

const read = (word) => written(parse(`- ${word}`, { version: "1.2", intAsBigInt: true })[0]);
const values = Object.fromEntries([...words].map((word) => [word, read(word)]));
writeFileSync(process.argv[2], `${JSON.stringify(values, null, 1)}\n`);
