"""Penstock's commands for `spark-submit`, which takes a Python file:

spark-submit --master spark://host:7077 spark_submit.py split penstock.properties --topic ...
"""

import sys

from penstock.cli import main

sys.exit(main())
