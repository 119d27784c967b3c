"""Problems of a Delta table that are found before anything is written to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONSTRAINT: Final = "delta.constraints."
"""What the property of a CHECK constraint begins with; its value is the condition."""
_TEXTS: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_OF_VALUE: Final = re.compile(r"(?<![\w.])`?value\b", re.IGNORECASE)
_DOTS: Final = re.compile(r"\s*\.\s*")
"""Delta writes `value . id`."""


def check_constraints(spark: SparkSession, name: str) -> None:
    """Check that no CHECK constraint of a table looks at parsed values.

    Raises:
        ConfigurationError: One does. A record that violates it would end each attempt to write.
    """
    for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect():
        key, condition = row[0], row[1]
        bare = _DOTS.sub(".", _TEXTS.sub("", condition))
        if key.startswith(_CONSTRAINT) and _OF_VALUE.search(bare):
            constraint = key.removeprefix(_CONSTRAINT)
            raise ConfigurationError(
                f"{TABLE}{name}: the constraint {constraint} ({condition}) is of value, and is not "
                "checked before records are written, so one record would end the stream: use a "
                f"policy, such as Rules, and ALTER TABLE {name} DROP CONSTRAINT {constraint}"
            )
