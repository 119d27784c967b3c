"""Logins in `upstream.sasl.jaas.config`: what is refused, without ever showing it."""

from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients import check_login

FILE = Path("penstock.properties")
KEY = f"{FILE}: upstream.sasl.jaas.config"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def properties(jaas, mechanism="PLAIN", **more):
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
        **more,
    }


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER", "GSSAPI", ""])
@pytest.mark.parametrize(
    "jaas", ["hunter2", "hunter2 needed a=1;", 'username="u" password="hunter2"']
)
def test_what_is_no_entry_of_jaas_is_refused_and_not_shown(mechanism, jaas):
    with pytest.raises(ConfigurationError) as caught:
        check_login(properties(jaas, mechanism), FILE)
    assert str(caught.value).startswith(f"{KEY} must be a login module and its options, such as ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("jaas", "missing"),
    [
        ("", 'username="..." and password="..."'),
        ("a.B required;", 'username="..." and password="..."'),
        ("a.B required username=u password=hunter2;", 'username="..." and password="..."'),
        ('a.B required password="hunter2";', 'username="..."'),
        ('a.B required username="u" passwort="hunter2";', 'password="..."'),
    ],
)
def test_a_login_without_user_or_password_is_refused_and_not_shown(mechanism, jaas, missing):
    with pytest.raises(ConfigurationError) as caught:
        check_login(properties(jaas, mechanism), FILE)
    assert str(caught.value).startswith(
        f"{KEY} needs {missing} for upstream.sasl.mechanism={mechanism}; "
    )
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        properties('a.B required username="u" password="p";'),
        properties("a.B Required username='u' password='p';"),
        properties("", **{"sasl.username": "u", "sasl.password": "p"}),
        properties("a.B required;", "OAUTHBEARER"),
        properties("", "OAUTHBEARER"),
        {"bootstrap.servers": "a:1"},
    ],
)
def test_other_logins_are_left_to_the_client(given):
    check_login(given, FILE)
