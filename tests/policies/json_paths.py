"""Random JSON texts, and paths into them."""

import json
import random
from collections.abc import Sequence
from typing import Any

from penstock.policies.json_paths import EVERY

NEW = '"***"'
NAMES = ["a", "b", "number", "", "\u00e4", '"', "\\", "/", "\n", "\u20ac", "\U0001f600", "a.b"]
NUMBERS = ["0", "-0", "1.10", "1.0", "12345678901234567.89", "1e2", "1E+2", "1e-7", "-1.50e03",
           "123456789012345678901234567890", "1e999", "-1e999999", "0.1e-400"]  # fmt: skip
PATHS = ["a", "a.b", "number", "*", "a.*", "*.number", "a[*].b", "*.*", "['a.b']", r"['\"']",
         "['\u00e4'].*.a", "[''][*]", "a.*.*", "b.a.number", r"['\n'].a", "*['\u20ac']"]  # fmt: skip


class Writer:
    """Writes a random document twice: as it is sent, and as it is to be stored."""

    def __init__(self, random_: random.Random, paths: Sequence[Any]) -> None:
        self.random = random_
        self.paths = paths

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "\n", "\t \r\n"])

    def name(self, name: str) -> str:
        return self.random.choice([
            json.dumps(name), json.dumps(name, ensure_ascii=False),
            '"' + "".join(f"\\u{unit:04X}" for unit in units(name)) + '"',
        ])  # fmt: skip

    def document(self, place: tuple[str | None, ...] = (), depth: int = 0) -> tuple[str, str]:
        kind = self.random.choice([0, 1, 2, 2, 3][: 5 if depth < 5 else 2][-5 if depth else -3 :])
        if kind == 0:
            sent = stored = self.random.choice([*NUMBERS, "true", "false", "null"])
        elif kind == 1:
            sent = stored = self.name(self.random.choice(NAMES) * 2)
        else:
            parts, is_object = [], kind == 2
            for _ in range(self.random.randrange(4)):
                name = self.random.choice(NAMES) if is_object else None
                inner = self.document((*place, name), depth + 1)
                before, after = self.space(), self.space()
                if is_object:
                    before += f"{self.name(name)}{self.space()}:{self.space()}"
                parts.append([before + text + after for text in inner])
            nothing = self.space() if not parts else ""
            ends = "{}" if is_object else "[]"
            sent, stored = (
                ends[0] + nothing + ",".join(part[which] for part in parts) + ends[1]
                for which in (0, 1)
            )
        is_replaced = any(leads_to(path, place) for path in self.paths)
        return sent, self.replacement_of(sent) if is_replaced else stored

    def replacement_of(self, sent: str) -> str:
        return NEW


def units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]


def leads_to(path: Sequence[Any], place: Sequence[str | None]) -> bool:
    return len(path) == len(place) and all(
        step is EVERY or step == name for step, name in zip(path, place, strict=True)
    )
