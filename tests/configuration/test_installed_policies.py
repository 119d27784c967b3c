"""Short names of policies: built-in policies, and entry points of installed packages."""

import sys

import pytest

from penstock.configuration.installed_policies import (
    class_of_type,
    installed_policies,
    own_policies,
)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put packages where this process imports from, as `pip install` leaves them."""

    def install(name, **entry_points):
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{key}={value}\n" for key, value in entry_points.items())
        (info / "entry_points.txt").write_text(f"[penstock.policies]\n{lines}")
        monkeypatch.syspath_prepend(folder)
        assert str(folder) in sys.path

    return install


def test_built_in_policies_have_short_names():
    own = own_policies()

    assert own["JsonSchema"] == "penstock.policies.JsonSchema"
    assert "TopicRules" not in own  # it judges topics
    assert class_of_type("JsonSchema") == "penstock.policies.JsonSchema"


def test_installed_policies_have_short_names(install):
    install("acme", amounts="acme.policies:Amounts")

    assert ("amounts", "acme.policies:Amounts", "acme") in installed_policies()
    assert class_of_type("amounts") == "acme.policies:Amounts"
    with pytest.raises(
        ValueError, match=r"short name of a policy: .*amounts.*did you mean amounts\?"
    ):
        class_of_type("amount")


def test_two_packages_with_a_short_name(install):
    install("acme", amounts="acme.policies:Amounts")
    install("other", amounts="other:Amounts")

    with pytest.raises(ValueError, match="since acme and other have a policy of this short name"):
        class_of_type("amounts")
    assert class_of_type("other:Amounts") == "other:Amounts"


def test_a_built_in_policy_cannot_be_replaced(install):
    install("acme", JsonSchema="acme.policies:Amounts")

    assert class_of_type("JsonSchema") == "penstock.policies.JsonSchema"


@pytest.mark.parametrize("given", ["a.", ":B", "a b.C", "1a.C"])
def test_entry_points_that_are_no_class(given):
    with pytest.raises(ValueError, match=r"package\.module\.Class"):
        class_of_type(given)
