"""Processes that a policy leaves running end with its worker, even if they detach."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.configuration.processes.descendants import adopt_orphans, reap_orphans
from tests.gateways import is_running, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process group ends"),
]
POLICIES = """
import os
from penstock.policy import *

class Misbehaves(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        read, write = os.pipe()
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.write(write, str(os.getpid()).encode())
                os.closerange(0, 256)
                command = "/bin/true" if value == b"short" else "/bin/sleep"
                os.execve(command, [command, "600"], {})
            os._exit(0)
        os.wait()
        return InvalidRecordException(os.read(read, 20).decode())
"""


async def orphans(folder: Path) -> None:
    """Let a policy start detached processes; print their ids, and end."""
    from tests.engine.supervised import Judging

    assert adopt_orphans()
    own = await asyncio.create_subprocess_exec("/bin/sleep", "600")
    async with Judging(folder, POLICIES, **{"policy.workers": 1}) as judging:
        verdict = await judging.judge(b"long")
        left = int(verdict.record_errors[0].message)
        verdict = await judging.judge(b"short")
        ended = int(verdict.record_errors[0].message)
        await asyncio.to_thread(wait_until, lambda: not is_running(ended))
        assert Path(f"/proc/{ended}").exists(), "no process has reaped it"
        await asyncio.to_thread(wait_until, lambda: reap_orphans() or not _exists(ended))
        assert is_running(left)
        others = judging.supervisor.pids
    gone = not is_running(left) and not any(map(is_running, others))
    print(left, own.returncode is None and is_running(own.pid) and gone, flush=True)
    own.kill()
    await own.wait()


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_process_with_another_environment_and_parent_ends_with_its_worker(tmp_path):
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.configuration.processes.test_descendants import orphans\n"
        "asyncio.run(orphans(Path(sys.argv[1])))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        start_new_session=True,
    )
    assert ran.returncode == 0, ran.stderr
    left, others_are_as_they_should = ran.stdout.split()[-2:]
    assert others_are_as_they_should == "True"
    assert not is_running(int(left))
