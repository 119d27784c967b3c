"""Wrong policies end the commands over stored records before the cluster is contacted."""

import pytest

from penstock import cli

pytestmark = pytest.mark.unit

COMMANDS = {
    "audit": ("--topic", "orders"),
    "split": ("--topic", "orders", "--accepted", "clean", "--rejected", "dead"),
    "redact": ("--topic", "orders", "--to", "public"),
    "redrive": ("--from", "dead", "--to", "orders"),
}


@pytest.fixture
def file(tmp_path):
    """A configuration file whose cluster does not answer."""

    def write(*lines):
        path = tmp_path / "penstock.properties"
        path.write_text("\n".join(("upstream.bootstrap.servers=127.0.0.1:9", *lines)))
        return str(path)

    return write


@pytest.mark.parametrize("command", COMMANDS)
def test_a_class_of_the_file_that_does_not_exist(command, file, capsys):
    path = file("record.validator.classes=nowhere.Repair")
    assert cli.main([command, path, *COMMANDS[command], "--local"]) == 2
    assert "nowhere.Repair" in capsys.readouterr().err


def test_a_repair_that_does_not_exist(file, capsys):
    arguments = ["redrive", file(), *COMMANDS["redrive"], "--with", "nowhere.Repair", "--local"]
    assert cli.main(arguments) == 2
    assert "--with nowhere.Repair: " in capsys.readouterr().err


def test_a_file_without_interceptors_to_redact_with(file, capsys):
    assert cli.main(["redact", file(), *COMMANDS["redact"], "--local"]) == 2
    assert "produce.request.interceptors is missing" in capsys.readouterr().err
