"""The folder of the installed Spark."""

from pathlib import Path
from typing import Final

import pyspark

SPARK: Final = Path(pyspark.__file__).parent
