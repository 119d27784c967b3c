"""The valid combinations of keys of the audit trail."""

import contextlib
import os
import re
import tempfile
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.gateway.observing.audit_trail.keys import check_audit_keys
from tests.gateway.observing.audit_trail.configured import configuration


@contextlib.contextmanager
def unprivileged():
    """Have the permissions of any other user, also where root runs the tests."""
    own = os.geteuid()
    if not own:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"audit.topic": "a", "audit.file": "b"}, " and audit.file are both set"),
        ({"audit.topic": "no name"}, "a-z A-Z 0-9 . _ -; it is 'no name'"),
        ({"audit.topic": ".."}, "must be the name of a topic"),
        ({"audit.topic": "__consumer_offsets"}, "which is Kafka's own"),
        ({"audit.topic": "__penstock_topic_settings"}, "the topic of topic.settings.topic"),
        ({"audit.topic": "s", "topic.settings.topic": "s"}, "the topic of topic.settings.topic"),
        (
            {"audit.topic": "__penstock_producer_state"},
            "the topic of produce.request.interceptors.state.topic",
        ),
        ({"audit.topic": "__penstock_places"}, "the topic of redrive.places.topic"),
    ],
)
def test_keys_that_cannot_be_combined_are_an_error(tmp_path, keys, why):
    with pytest.raises(ConfigurationError, match=rf"penstock\.properties: audit\.topic.*{why}"):
        check_audit_keys(configuration(tmp_path, **keys))


@pytest.mark.parametrize(
    "keys",
    [{}, {"audit.topic": "__penstock_audit"}, {"audit.file": "x.jsonl"}, {"audit.topic": ""}],
)
def test_keys_that_can_be_combined_are_accepted(tmp_path, keys):
    check_audit_keys(configuration(tmp_path, **keys))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none/a.jsonl", "No such file or directory"),
        ("p.properties/a.jsonl", "Not a directory"),
        ("folder", "Is a directory"),
        ("pipe", "is not a file"),
        ("link", "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_opened_is_an_error(tmp_path, path, why):
    (tmp_path / "p.properties").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("none/a.jsonl")
    os.mkfifo(tmp_path / "pipe")
    where = re.escape(f"penstock.properties: audit.file: {tmp_path / path}: ")
    with pytest.raises(ConfigurationError, match=f"{where}.*{why}; it must be a file, in an exist"):
        check_audit_keys(configuration(tmp_path, **{"audit.file": path}))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_may_not_be_written_is_an_error(is_there):
    with tempfile.TemporaryDirectory() as name:  # tmp_path is below a folder of its user alone
        folder = Path(name)
        if is_there:
            (folder / "a.jsonl").touch(0o444)
        given = configuration(folder, **{"audit.file": "a.jsonl"})
        folder.chmod(0o555)
        try:
            with (
                unprivileged(),
                pytest.raises(ConfigurationError, match="jsonl: Permission denied"),
            ):
                check_audit_keys(given)
        finally:
            folder.chmod(0o755)


def test_a_check_changes_no_file(tmp_path):
    (tmp_path / "old.jsonl").write_text("{")  # a gateway completes the line
    for name in ("old.jsonl", "new.jsonl"):
        check_audit_keys(configuration(tmp_path, **{"audit.file": name}))
    assert (tmp_path / "old.jsonl").read_text() == "{"
    assert not (tmp_path / "new.jsonl").exists()
