"""The keys `schema.registry.*`: their values, and the errors."""

import pytest

from penstock.policies.schema_policy.registry.settings import KEYS, RegistrySettings

SECRET = "xK9-secret"


def read(folder=None, **configs):
    given = {f"schema.registry.{key.replace('_', '.')}": value for key, value in configs.items()}
    return RegistrySettings.from_configs(given, folder)


def test_there_is_no_registry_without_its_keys():
    assert RegistrySettings.from_configs({"upstream.bootstrap.servers": "x"}) is None


def test_urls_are_a_list():
    found = read(url=" http://a:8081/ , https://b/apis/ccompat/v7/,http://a:8081")
    assert found.urls == ("http://a:8081", "https://b/apis/ccompat/v7")
    assert found.timeout == 5.0
    assert found.tls is not None
    assert read(url="http://[::1]:8081").tls is None


def test_a_login_is_not_in_the_repr():
    found = read(url="http://a", basic_auth_user_info=f"me:{SECRET}:x", timeout_ms=" 250 ")
    assert (found.user_info, found.timeout) == (f"me:{SECRET}:x", 0.25)
    assert SECRET not in repr(found)


def test_a_token_is_sent_with_its_headers():
    given = {
        "schema.registry.url": "http://a",
        "schema.registry.bearer.auth.token": SECRET,
        "schema.registry.bearer.auth.credentials.source": "static_token",
        "schema.registry.bearer.auth.logical.cluster": "lsrc-1",
        "schema.registry.bearer.auth.identity.pool.id": "pool-1",
    }
    found = RegistrySettings.from_configs(given)
    assert found.headers == {
        "Authorization": f"Bearer {SECRET}",
        "target-sr-cluster": "lsrc-1",
        "Confluent-Identity-Pool-Id": "pool-1",
    }
    assert SECRET not in repr(found)


URL = "schema.registry.url"
USER_INFO = "schema.registry.basic.auth.user.info"
TOKEN = "schema.registry.bearer.auth.token"
CLUSTER = "schema.registry.bearer.auth.logical.cluster"
ONE = {URL: "http://a"}
BEARER = "schema.registry.bearer.auth"
OAUTH = ONE | {
    f"{BEARER}.credentials.source": "OAUTHBEARER",
    f"{BEARER}.issuer.endpoint.url": "http://issuer/token",
    f"{BEARER}.client.id": "me",
    f"{BEARER}.client.secret": SECRET,
}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({URL: ""}, f"{URL} must be a URL like .* not nothing"),
        (
            {URL: ",".join(f"http://{number}" for number in range(11))},
            f"{URL} must be .* up to 10 of",
        ),
        ({USER_INFO: "a:b"}, f"{URL} must be a URL"),
        ({URL: "a:8081"}, f"{URL} must begin with http:// or https:// and a host"),
        ({URL: "ftp://a"}, f"{URL} must begin with http://"),
        ({URL: "http://"}, f"{URL} must begin with http://"),
        ({URL: "http://a,"}, f"URL 2 of {URL} must begin with"),
        ({URL: "http://a:x"}, f"{URL} is not a URL"),
        ({URL: "http://a:99999"}, f"{URL} is not a URL"),
        ({URL: "http://[::1"}, f"{URL} is not a URL"),
        ({URL: f"http://me:{SECRET}@a"}, f"{URL} must not contain .* belong into {USER_INFO}"),
        ({URL: f"http://a?token={SECRET}"}, f"{URL} must end with its path"),
        ({URL: "http://a/contexts/.x:y"}, f"{URL} names a context with a colon"),
        ({URL: "http://a/contexts/.x,http://b"}, f"all URLs of {URL} must be of one context"),
        ({URL: "http://a/ b"}, f"{URL} must be ASCII text without spaces"),
        ({URL: "http://a\r\nX: 1"}, f"{URL} must be ASCII text without spaces"),
        (ONE | {USER_INFO: SECRET}, f"{USER_INFO} must be user:password"),
        (ONE | {USER_INFO: ""}, f"{USER_INFO} must be user:password"),
        (ONE | {USER_INFO: f":{SECRET}"}, f"{USER_INFO} must be user:password"),
        (ONE | {USER_INFO: f"a:{SECRET}\nb"}, f"{USER_INFO} must be user:password"),
        (ONE | {USER_INFO: f"a:{SECRET}", TOKEN: SECRET}, "cannot both be given"),
        (ONE | {TOKEN: f"{SECRET} {SECRET}"}, f"{TOKEN} must have only letters"),
        (ONE | {TOKEN: f"{SECRET}\r\nHost: b"}, f"{TOKEN} must have only letters"),
        (ONE | {TOKEN: ""}, f"{TOKEN} must have only letters"),
        (ONE | {CLUSTER: "x"}, f"{CLUSTER} needs {TOKEN}"),
        (ONE | {"schema.registry.timeout.ms": "0"}, "timeout.ms must be .* from 1 to 600000"),
        (ONE | {"schema.registry.timeout.ms": "1s"}, "timeout.ms must be .* not 1s"),
        (ONE | {"schema.registry.timeout.ms": ""}, "timeout.ms must be .* not nothing"),
        (
            ONE | {"schema.registry.basic.auth.credentials.source": "SASL_INHERIT"},
            "basic.auth.credentials.source must be USER_INFO",
        ),
        (
            ONE | {"schema.registry.bearer.auth.credentials.source": "UAMI"},
            "bearer.auth.credentials.source must be STATIC_TOKEN or OAUTHBEARER",
        ),
        (ONE | {f"{BEARER}.client.id": "x"}, f"{BEARER}.client.id needs .*=OAUTHBEARER"),
        (OAUTH | {TOKEN: SECRET}, f"{TOKEN} and .*=OAUTHBEARER cannot both be given"),
        (OAUTH | {USER_INFO: f"a:{SECRET}"}, f"{USER_INFO} and .*=OAUTHBEARER cannot both"),
        (OAUTH | {f"{BEARER}.client.secret": " "}, f"OAUTHBEARER needs {BEARER}.client.secret"),
        (OAUTH | {f"{BEARER}.client.id": "a:b"}, f"{BEARER}.client.id must not contain a colon"),
        (OAUTH | {f"{BEARER}.issuer.endpoint.url": "x"}, "issuer.endpoint.url must begin with"),
        (
            OAUTH | {f"{BEARER}.cache.expiry.buffer.seconds": "soon"},
            "buffer.seconds must be a number of seconds, not soon",
        ),
        (
            ONE | {"schema.registry.ssl.truststore.location": "x"},
            "ssl.truststore.location needs a URL in schema.registry.url that begins with https",
        ),
        (ONE | {"schema.registry.urls": "x"}, "urls is unknown; did you mean schema.registry.url?"),
        (ONE | {"schema.registry.ulr": "x"}, "ulr is unknown; did you mean schema.registry.url?"),
        (ONE | {"schema.registry.color": "x"}, "schema.registry.color is unknown; there are "),
    ],
)
def test_errors_name_the_key_and_show_no_secret(given, text):
    with pytest.raises(ValueError, match=text) as caught:
        RegistrySettings.from_configs(given)
    assert SECRET not in str(caught.value)


def test_each_key_is_documented():
    assert all(len(meaning) > 4 for _, meaning in KEYS.values())
    assert all(key.startswith("schema.registry.") for key in KEYS)


def test_a_cache_is_a_folder_that_need_not_be_there_yet(tmp_path):
    found = read(tmp_path, url="http://a", cache_dir="deep/cache")
    assert found.cache_folder == tmp_path / "deep" / "cache"
    assert read(tmp_path, url="http://a").cache_folder is None
    (tmp_path / "file").write_text("")
    for name in ("file", "file/cache"):
        with pytest.raises(
            ValueError, match=r"cache.dir must name a folder, and .*file is not a folder"
        ):
            read(tmp_path, url="http://a", cache_dir=name)
