"""The file of the audit trail is opened."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.gateway.observing.audit_trail.opening import open_audit_trail
from tests.gateway.observing.audit_trail.configured import configuration


async def test_the_file_is_relative_to_the_configuration(tmp_path):
    trail = await open_audit_trail(configuration(tmp_path, **{"audit.file": "audit.jsonl"}), "g")
    trail.close()
    assert (tmp_path / "audit.jsonl").exists()


async def test_without_keys_there_is_no_audit_trail(tmp_path):
    assert await open_audit_trail(configuration(tmp_path), "g") is None


async def test_a_missing_folder_is_an_error(tmp_path):
    given = configuration(tmp_path, **{"audit.file": "not/there.jsonl"})
    with pytest.raises(ConfigurationError, match=r"audit\.file: .*not/there\.jsonl: No such"):
        await open_audit_trail(given, "g")
