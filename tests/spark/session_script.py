"""A script that starts a session of Spark."""

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
end_jvm()  # there is no JVM
print("ended")
"""
