"""The verdicts in a frame."""

from typing import Any


def verdicts(df: Any, name: str = "NoBad") -> list[tuple[Any, ...]]:
    rows = df.orderBy("offset").select("verdict.*").collect()
    return [(o, p and p.rpartition(".")[2], c, m) for o, p, c, m in rows]
