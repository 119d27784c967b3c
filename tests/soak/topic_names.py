"""The topics of the soak, by the handling of their records."""

from typing import Final

JUDGED: Final = "soak-judged"
INTERCEPTED: Final = "soak-intercepted"
TRANSACTIONS: Final = "soak-transactions"
SCHEMAS: Final = "soak-schemas"
OBSERVED: Final = "soak-observed"
QUARANTINED: Final = "soak-quarantined"
DEAD: Final = f"{QUARANTINED}.dead"
"""The dead letter topic, which a gateway creates."""
MARKED: Final = "soak-marked"
TOPICS: Final = (JUDGED, INTERCEPTED, TRANSACTIONS, SCHEMAS, OBSERVED, QUARANTINED, MARKED)
FORGIVING: Final = frozenset({OBSERVED, QUARANTINED, MARKED})
"""Topics that refuse no record: bad records are stored, too."""
