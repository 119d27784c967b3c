"""The keys that chose where the state of producers is kept."""

import pytest

from penstock.configuration import ConfigurationError, load_configuration

LEAST = "upstream.bootstrap.servers=a:1\n"
KEY = "produce.request.interceptors.state"


def load(tmp_path, line):
    file = tmp_path / "penstock.properties"
    file.write_text(f"{LEAST}{line}\n")
    return load_configuration(file)


def refused(tmp_path, line):
    """Return the error, behind the name of the file."""
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, line)
    file, separator, message = str(raised.value).partition(": ")
    assert (file, separator) == (f"{tmp_path}/penstock.properties", ": ")
    return message


@pytest.mark.parametrize("value", ["cluster", ""])
def test_the_value_of_every_gateway_is_accepted_with_a_warning(tmp_path, value):
    (warning,) = load(tmp_path, f"{KEY}={value}").warnings
    assert warning == (
        f"{KEY} has no effect, because the state of producers is kept in a topic of the cluster: "
        "delete the key"
    )


@pytest.mark.parametrize("value", ["local", "clustr"])
def test_another_state_is_an_error_that_says_what_becomes_of_the_numbers(tmp_path, value):
    message = refused(tmp_path, f"{KEY}={value}")
    assert message.startswith(f"{KEY} must be cluster; it is ")
    assert f"it is {value!r}, but" in message
    assert "delete the key" in message
    assert f"takes over the numbers in {tmp_path}/penstock-state" in message


@pytest.mark.parametrize("value", ["", "/var/lib/penstock"])
def test_a_folder_is_an_error_that_says_where_its_files_belong(tmp_path, value):
    message = refused(tmp_path, f"{KEY}.dir={value}")
    assert message.startswith(f"{KEY}.dir is {value!r}, but")
    assert f"copy the files producer-state-* of its folder to {tmp_path}/penstock-state" in message


def test_the_value_of_a_variable_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SECRET", "secret")
    assert "secret" not in refused(tmp_path, f"{KEY}=${{env:PENSTOCK_SECRET}}")
