"""Sessions of commands: whoever starts a JVM waits for its end."""

import subprocess
import sys

import pytest

SCRIPT = """
from pathlib import Path
from pyspark import SparkContext
from penstock.spark.session import end_jvm, start_session, stop_session

for _ in range(2):  # one can be started again
    session = start_session("test", "local[1]", {"spark.jars": ""})
    assert session.range(3).count() == 3
    jvm = SparkContext._gateway.proc
    assert Path(f"/proc/{jvm.pid}").exists()
    stop_session(session)
    assert jvm.returncode is not None
    assert not Path(f"/proc/{jvm.pid}").exists()
end_jvm()  # there is none
print("ended")
"""


@pytest.mark.spark_processes
def test_a_stopped_session_leaves_no_jvm():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "ended\n"
