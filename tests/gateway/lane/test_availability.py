"""Whether connections are forwarded natively: by a variable, and by the system."""

import pytest

from penstock.gateway.lane import availability
from penstock.gateway.lane.availability import (
    NativeThreadsError,
    describe_lane,
    find_lane,
    find_rings,
    why_without_tls,
)


class WithLane:
    Lane = Ring = RingPool = object


class WithoutLane:
    """The extension on a system without epoll."""


@pytest.fixture
def installed(monkeypatch):
    """Install an extension, and set the variable."""

    def install(module, wanted):
        monkeypatch.setattr(availability, "_native", module)
        if wanted is None:
            monkeypatch.delenv("PENSTOCK_NATIVE_LANE", raising=False)
        else:
            monkeypatch.setenv("PENSTOCK_NATIVE_LANE", wanted)

    return install


@pytest.mark.parametrize(
    ("module", "wanted", "message"),
    [
        (WithLane, "", "native"),
        (WithLane, "1", "native"),
        (WithLane, "0", "Python"),
        (WithoutLane, "", "Python"),
        (WithLane, None, "native"),
    ],
)
def test_native_threads_or_python_forward_by_variable_and_extension(
    installed, module, wanted, message
):
    installed(module, wanted)
    assert describe_lane() == message


@pytest.mark.parametrize(
    ("module", "wanted", "are_there"),
    [(WithLane, "", True), (WithLane, "1", True), (WithLane, "0", False), (WithoutLane, "", False)],
)
def test_workers_have_rings_where_native_threads_forward(installed, module, wanted, are_there):
    installed(module, wanted)
    assert (find_rings() is not None) is are_there


def test_required_threads_that_are_not_possible_are_an_error(installed):
    installed(WithoutLane, "1")
    with pytest.raises(NativeThreadsError, match="native threads forward connections on Linux"):
        find_lane()


def test_other_values_of_the_variable_are_an_error(installed):
    installed(WithLane, "yes")
    with pytest.raises(NativeThreadsError, match="PENSTOCK_NATIVE_LANE=yes: it must be 0"):
        find_lane()


def test_other_values_of_the_variable_of_tls_are_an_error(installed, monkeypatch):
    installed(WithLane, "")
    monkeypatch.setenv("PENSTOCK_NATIVE_TLS", "no")
    with pytest.raises(NativeThreadsError, match="PENSTOCK_NATIVE_TLS=no: it must be 0"):
        find_lane()


@pytest.mark.parametrize(("is_fips", "reason"), [(0, ""), (1, "OpenSSL is in FIPS mode")])
def test_in_fips_mode_native_threads_have_no_tls(monkeypatch, is_fips, reason):
    monkeypatch.delenv("PENSTOCK_NATIVE_TLS", raising=False)
    monkeypatch.setattr("_hashlib.get_fips_mode", lambda: is_fips)
    assert why_without_tls() == reason
