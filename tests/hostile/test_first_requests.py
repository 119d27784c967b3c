"""The first request of each kind uses as little of the event loop as later requests."""

import sys

from tests.gateways import RunningGateway, gateway_port, write_configuration
from tests.hostile.attack import Attack
from tests.hostile.conftest import POLICIES, PROPERTIES

REPORTS_IMPORTS = """import gc, runpy, sys
sys.modules["hypothesis"] = None

def report(event, args):
    # What there is when clients may come is frozen.
    if event == "import" and gc.get_freeze_count():
        print("imported", args[0], file=sys.stderr, flush=True)

sys.addaudithook(report)
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""


def test_no_request_imports_a_schema_in_the_gateway(cluster, bases, tmp_path):
    port = gateway_port()
    file = write_configuration(tmp_path, cluster.bootstrap_servers, port, PROPERTIES, POLICIES)
    running = RunningGateway(file, [sys.executable, "-c", REPORTS_IMPORTS])
    try:
        attack = Attack(running.broker_address())
        for request in bases:
            attack.send(request.frame)
    finally:
        running.stop()
    assert attack.results["answered"] > 100
    texts = [str(event["event"]) for event in running.log]
    assert [text for text in texts if text.startswith("imported kio.")] == []
