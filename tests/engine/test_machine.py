"""The memory of the machine, or of a container."""

import os

from penstock.engine import machine


def test_the_limit_of_a_container_counts_if_it_is_less(tmp_path, monkeypatch):
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, other = tmp_path / "memory.max", tmp_path / "missing"
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", (other, limit))
    for content, expected in (("max\n", physical), (f"{2**60}\n", physical), ("12345\n", 12345)):
        limit.write_text(content)
        assert machine.memory_bytes() == expected
