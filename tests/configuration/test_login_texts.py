"""Logins in `upstream.sasl.jaas.config`: refusals, without ever showing the login."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.login import read_login

KEY = "penstock.properties: upstream.sasl.jaas.config"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def read(jaas, mechanism="PLAIN", **more):
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
        **more,
    }
    return read_login(properties, "penstock.properties: upstream.")


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER", "GSSAPI", ""])
@pytest.mark.parametrize(
    "jaas", ["hunter2", "hunter2 needed a=1;", 'username="u" password="hunter2"']
)
def test_an_invalid_jaas_entry_is_refused_and_not_shown(mechanism, jaas):
    with pytest.raises(ConfigurationError) as caught:
        read(jaas, mechanism)
    assert str(caught.value).startswith(f"{KEY} must be a login module and its options, such as ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "jaas",
    [
        "",
        "a.B required;",
        'a.B required password="hunter2";',
        'a.B required username="u" passwort="hunter2";',
    ],
)
def test_a_login_without_user_or_password_is_refused_and_not_shown(mechanism, jaas):
    with pytest.raises(ConfigurationError) as caught:
        read(jaas, mechanism)
    assert f"sasl.mechanism={mechanism} needs username and password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("jaas", "more"),
    [
        ('a.B required username="u" password="p";', {}),
        ("a.B Required username='u' password='p';", {}),
        ("a.B required username=u password=p;", {}),
        ("", {"sasl.username": "u", "sasl.password": "p"}),
    ],
)
def test_user_and_password_are_found(jaas, more):
    assert read(jaas, **more)[1:3] == ("u", "p")
