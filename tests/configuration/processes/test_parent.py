"""A process that ends with the process that started it."""

import subprocess
import sys

import pytest

from tests.gateways import is_running, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this"),
]
ENDLESS = """
import os, pathlib, time
pathlib.Path({pid!r} + ".new").write_text(str(os.getpid()))
pathlib.Path({pid!r} + ".new").rename({pid!r})
time.sleep(600)
"""
IMPORTS = {
    "keys": "from penstock.configuration.declared_keys import declared_by_user\n"
    "declared_by_user('endless.Policy', Path(sys.argv[1]), [])",
    "policies": "from penstock.configuration.policy_classes import classes_of_user\n"
    "classes_of_user({'policies.a.type': 'endless.Policy'}, Path(sys.argv[1]))",
    "files": "from penstock.engine.plans.imported_files import imported_files\n"
    "imported_files({'policies.a.type': 'endless.Policy'}, Path(sys.argv[1]), [])",
}


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS.keys())
def test_an_import_ends_with_a_process_that_is_killed(tmp_path, imports):
    """No signal to a terminal's process group reaches it, so it would never end."""
    pid = tmp_path / "pid"
    (tmp_path / "endless.py").write_text(ENDLESS.format(pid=str(pid)))
    program = f"import sys\nfrom pathlib import Path\n{imports}"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "p")]) as parent:
        try:
            wait_until(pid.exists, 60)
        finally:
            parent.kill()
    wait_until(lambda: not is_running(int(pid.read_text())), 60)
