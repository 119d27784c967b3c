"""The topics of the soak, by what becomes of their records."""

from typing import Final

JUDGED: Final = "soak-judged"
INTERCEPTED: Final = "soak-intercepted"
TRANSACTIONS: Final = "soak-transactions"
SCHEMAS: Final = "soak-schemas"
OBSERVED: Final = "soak-observed"
QUARANTINED: Final = "soak-quarantined"
DEAD: Final = f"{QUARANTINED}.dead"
"""The dead letter topic, which a gateway makes."""
MARKED: Final = "soak-marked"
TOPICS: Final = (JUDGED, INTERCEPTED, TRANSACTIONS, SCHEMAS, OBSERVED, QUARANTINED, MARKED)
FORGIVING: Final = frozenset({OBSERVED, QUARANTINED, MARKED})
"""Nothing is refused in these: bad records are stored as well, somewhere."""
