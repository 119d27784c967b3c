"""Five rows, of which two rules accept the last."""

from typing import Final

ORDERS: Final = (
    "SELECT id, if(id = 3, NULL, id - 1) amount, if(id = 2, 'USD', 'EUR') currency FROM range(5)"
)
RULES: Final = {"positive": "value.amount > 0", "known": "value.currency in ['EUR']"}
COUNTS: Final = {
    "judged": 5, "accepted": 1, "refused": 4, "failed": 0, "refused.positive": 3,
    "refused.known": 1,
}  # fmt: skip
