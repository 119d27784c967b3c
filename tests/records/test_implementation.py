"""The implementation is chosen by the installed extension and by PENSTOCK_NATIVE."""

import sys
import tomllib
from pathlib import Path

import pytest

from penstock import __version__
from penstock.native import INTERFACE, NativeMissingError
from penstock.records.implementation import SLACK, choose, describe, missing_native
from tests.records.encoding import encode_batch
from tests.records.sections import RECORDS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a module instead of penstock_native."""

    def put(text):
        (tmp_path / "penstock_native.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        # Whatever is imported in its place is gone afterwards.
        monkeypatch.setitem(sys.modules, "penstock_native", None)
        del sys.modules["penstock_native"]

    return put


MATCHING = f"""
__version__ = {__version__!r}
INTERFACE = {INTERFACE}
InvalidRecords = ValueError
def read(section, count, base_timestamp, new_header):
    return bytes(section), count, base_timestamp, new_header((b"k", None))
def read_stored(section, count, base_timestamp, new_header, last_offset_delta, log_append_time):
    return bytes(section), count, base_timestamp, last_offset_delta, log_append_time
"""


def test_a_matching_extension_is_used(install, monkeypatch):
    monkeypatch.delenv("PENSTOCK_NATIVE", raising=False)
    install(MATCHING)
    assert describe() == f"native {__version__}"
    chosen = choose()
    data = encode_batch(RECORDS)
    assert chosen.slack == 0
    assert chosen.read(memoryview(data), 3) == (data[61:], 3, RECORDS[0].timestamp, (b"k", None))
    assert chosen.read_stored(memoryview(data), 3, 4, 5) == (
        data[61:], 3, RECORDS[0].timestamp, 4, 5,
    )  # fmt: skip


def test_the_cost_of_a_missing_extension_and_its_installation_are_reported(install, monkeypatch):
    monkeypatch.delenv("PENSTOCK_NATIVE", raising=False)
    install("raise ImportError")
    assert "ten times" in missing_native()
    assert f"install penstock-native=={__version__}" in missing_native()


def test_an_extension_that_is_installed_or_disabled_is_not_reported_as_missing(
    install, monkeypatch
):
    monkeypatch.delenv("PENSTOCK_NATIVE", raising=False)
    install(MATCHING)
    assert missing_native() == ""
    install("raise ImportError")
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")
    assert missing_native() == ""


def test_zero_forces_python(install, monkeypatch):
    install(MATCHING)
    monkeypatch.setenv("PENSTOCK_NATIVE", "0")
    assert describe() == "Python"
    assert choose().slack == SLACK


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ModuleNotFoundError", ""),
        ("raise ImportError('undefined symbol')", "penstock_native cannot be loaded here"),
        ("__version__ = '0.0.1-dev.0'", "penstock_native is of version 0.0.1.dev0"),
        ("", "penstock_native is not the extension: it has no version"),
        (
            f"__version__ = {__version__!r}",
            f"penstock_native has interface None, not {INTERFACE}: build it again",
        ),
        (
            f"__version__ = {__version__!r}; INTERFACE = {INTERFACE - 1}",
            f"penstock_native has interface {INTERFACE - 1}, not {INTERFACE}: build it again",
        ),
    ],
)
def test_an_unusable_extension_is_reported(install, monkeypatch, text, why):
    install(text)
    monkeypatch.setenv("PENSTOCK_NATIVE", "")
    assert describe() == (f"Python ({why})" if why else "Python")
    assert choose().slack == SLACK
    monkeypatch.setenv("PENSTOCK_NATIVE", "1")
    wanted = f"PENSTOCK_NATIVE=1, but {why or 'penstock_native is not installed'}"
    for function in (describe, choose):
        with pytest.raises(NativeMissingError) as refused:
            function()
        assert str(refused.value) == wanted


def test_a_folder_with_the_name_is_not_an_extension(tmp_path, monkeypatch):
    (tmp_path / "penstock_native").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "penstock_native", None)
    del sys.modules["penstock_native"]
    monkeypatch.setenv("PENSTOCK_NATIVE", "")
    assert describe() == "Python (penstock_native is not the extension: it has no version)"


@pytest.mark.parametrize("value", ["yes", "2", "native", " 1"])
def test_an_unknown_value_is_an_error(monkeypatch, value):
    monkeypatch.setenv("PENSTOCK_NATIVE", value)
    message = (
        f"PENSTOCK_NATIVE={value}: it must be 0 (Python), 1 (native) or empty (what is installed)"
    )
    for function in (describe, choose):
        with pytest.raises(NativeMissingError) as refused:
            function()
        assert str(refused.value) == message


def test_the_crate_has_the_interface_of_the_package():
    source = (ROOT / "native" / "src" / "python.rs").read_text()
    assert f"const INTERFACE: u32 = {INTERFACE};" in source


def test_the_crate_has_the_version_of_the_package():
    crate = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]["version"]
    assert crate.replace("-dev.", ".dev") == __version__
