"""Whether connections are forwarded natively: by a variable, and by the installed extension."""

import pytest

from penstock.gateway.lane import availability
from penstock.gateway.lane.availability import describe_lane, find_lane, why_without_tls
from penstock.native import NativeMissingError


class WithLane:
    Lane = object


class WithoutLane:
    """The extension on a system without epoll."""


@pytest.fixture
def installed(monkeypatch):
    """Install an extension, or none, and set the variable."""

    def given(module, wanted, why_not=""):
        monkeypatch.setattr(availability, "find_native", lambda: (module, why_not))
        if wanted is None:
            monkeypatch.delenv("PENSTOCK_NATIVE_LANE", raising=False)
        else:
            monkeypatch.setenv("PENSTOCK_NATIVE_LANE", wanted)

    return given


@pytest.mark.parametrize(
    ("module", "wanted", "message"),
    [
        (WithLane, "", "native"),
        (WithLane, "1", "native"),
        (WithLane, "0", "Python"),
        (WithoutLane, "", "Python"),
        (None, "", "Python"),
        (None, "0", "Python"),
        (WithLane, None, "native"),
    ],
)
def test_native_threads_or_python_forward_by_variable_and_extension(
    installed, module, wanted, message
):
    installed(module, wanted)
    assert describe_lane() == message


@pytest.mark.parametrize(
    ("module", "why_not", "message"),
    [
        (None, "", "PENSTOCK_NATIVE_LANE=1, but penstock_native is not installed, or not for"),
        (WithoutLane, "", "PENSTOCK_NATIVE_LANE=1, but penstock_native is not installed, or not"),
        (None, "penstock_native is of version 9", "but penstock_native is of version 9"),
    ],
)
def test_a_required_extension_that_is_missing_is_an_error(installed, module, why_not, message):
    installed(module, "1", why_not)
    with pytest.raises(NativeMissingError, match=message):
        find_lane()


def test_other_values_of_the_variable_are_an_error(installed):
    installed(WithLane, "yes")
    with pytest.raises(NativeMissingError, match="PENSTOCK_NATIVE_LANE=yes: it must be 0"):
        find_lane()


def test_other_values_of_the_variable_of_tls_are_an_error(installed, monkeypatch):
    installed(WithLane, "")
    monkeypatch.setenv("PENSTOCK_NATIVE_TLS", "no")
    with pytest.raises(NativeMissingError, match="PENSTOCK_NATIVE_TLS=no: it must be 0"):
        find_lane()


@pytest.mark.parametrize(("is_fips", "reason"), [(0, ""), (1, "OpenSSL is in FIPS mode")])
def test_in_fips_mode_native_threads_have_no_tls(monkeypatch, is_fips, reason):
    monkeypatch.delenv("PENSTOCK_NATIVE_TLS", raising=False)
    monkeypatch.setattr("_hashlib.get_fips_mode", lambda: is_fips)
    assert why_without_tls() == reason
