"""The keys of Kafka's Java clients, as they may follow `upstream.`.

The source is `AdminClientConfig`, `ConsumerConfig` and `ProducerConfig` of Kafka 4.4; a test
compares the names with those classes.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.clients.librdkafka_keys import fault_of_key
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.values import boolean, one_of, optional_text, servers, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Effect(StrEnum):
    """The effect of a key. The text is in the reference."""

    CONNECTION = "every connection"
    LOGIN = "the login"
    RAW = "connections that read and write whole batches"
    JAVA = "none"
    REPLACED = "none: Penstock sets or ignores it"
    REFUSED = "an error: it names a Java class"


class ClientKey(NamedTuple):
    """A key.

    Attributes:
        name: The name without `upstream.`.
        read: Reads a value; a ValueError names the valid values.
        effect: Its effect here.
    """

    name: str
    read: Callable[[str], object]
    effect: Effect


_JAAS: Final = re.compile(
    r"""\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)
    (?:\s+[\w.$-]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+))*\s*;\s*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_CLASS: Final = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1

_int = whole_number(0, _INT)
_positive = whole_number(1, _INT)
_any_int = whole_number(-(2**31), _INT)
_long = whole_number(0, _LONG)
_any_long = whole_number(-(2**63), _LONG)
_or_minus_1 = whole_number(-1, _INT)


def _fraction(least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"a number from {least:g} to {most:g}")
        return number

    return read


def _jaas(value: str) -> str:
    if value.strip() and not _JAAS.fullmatch(value):
        raise ValueError('LoginModule required option="value" ...; (with the semicolon)')
    return value


def _java_class(value: str) -> str:
    if value.strip() and not _CLASS.fullmatch(value.strip()):
        raise ValueError("the name of a Java class")
    return value.strip()


def _host_check(value: str) -> str:
    if value.strip().lower() not in {"https", "none", ""}:
        raise ValueError("https, or empty to accept certificates of other hosts")
    return value


def checks_host(properties: Mapping[str, str]) -> bool:
    """Return whether a broker's certificate must be for its host."""
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    return algorithm.strip().lower() not in {"none", ""}


def _of(effect: Effect, **names: Callable[[str], object]) -> list[ClientKey]:
    """Return keys with one effect; underscores replace dots."""
    return [ClientKey(name.replace("_", "."), parser, effect) for name, parser in names.items()]


_KEYS: Final = (
    *_of(
        Effect.CONNECTION,
        bootstrap_servers=servers,
        security_protocol=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        client_id=optional_text,
        client_rack=optional_text,
        request_timeout_ms=_int,
        socket_connection_setup_timeout_ms=_int,
        connections_max_idle_ms=_or_minus_1,
        retry_backoff_ms=_int,
        retry_backoff_max_ms=_int,
        ssl_truststore_location=optional_text,
        ssl_truststore_type=optional_text,
        ssl_truststore_certificates=optional_text,
        ssl_keystore_location=optional_text,
        ssl_keystore_type=optional_text,
        ssl_keystore_certificate_chain=optional_text,
        ssl_keystore_key=optional_text,
        ssl_endpoint_identification_algorithm=_host_check,
        ssl_key_password=optional_text,
        ssl_enabled_protocols=optional_text,
        ssl_cipher_suites=optional_text,
    ),
    *_of(
        Effect.RAW,
        default_api_timeout_ms=_int,
        fetch_max_bytes=_positive,
        fetch_max_wait_ms=_int,
    ),
    *_of(
        Effect.LOGIN,
        sasl_mechanism=optional_text,
        sasl_kerberos_service_name=optional_text,
        sasl_jaas_config=_jaas,
        sasl_login_callback_handler_class=_java_class,
        sasl_login_connect_timeout_ms=_int,
        sasl_login_read_timeout_ms=_int,
        sasl_login_refresh_window_factor=_fraction(0.5, 1.0),
        sasl_oauthbearer_token_endpoint_url=optional_text,
        sasl_oauthbearer_client_credentials_client_id=optional_text,
        sasl_oauthbearer_client_credentials_client_secret=optional_text,
        sasl_oauthbearer_scope=optional_text,
        sasl_oauthbearer_header_urlencode=boolean,
        sasl_oauthbearer_jwt_retriever_class=_java_class,
    ),
    *_of(
        Effect.REFUSED,
        sasl_client_callback_handler_class=_java_class,
        sasl_login_class=_java_class,
        security_providers=_java_class,
        ssl_engine_factory_class=_java_class,
    ),
    *_of(
        Effect.JAVA,
        send_buffer_bytes=_or_minus_1,
        receive_buffer_bytes=_or_minus_1,
        client_dns_lookup=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        metadata_max_age_ms=_long,
        reconnect_backoff_ms=_long,
        reconnect_backoff_max_ms=_long,
        enable_metrics_push=boolean,
        sasl_kerberos_kinit_cmd=optional_text,
        sasl_kerberos_min_time_before_relogin=_any_long,
        sasl_kerberos_ticket_renew_jitter=_fraction(0, 1),
        sasl_kerberos_ticket_renew_window_factor=_fraction(0, 1),
        sasl_login_refresh_buffer_seconds=whole_number(0, 3600),
        sasl_login_refresh_min_period_seconds=whole_number(0, 900),
        sasl_login_refresh_window_jitter=_fraction(0, 0.25),
        sasl_login_retry_backoff_max_ms=_any_long,
        sasl_login_retry_backoff_ms=_any_long,
        sasl_oauthbearer_allow_unverified_audience=boolean,
        sasl_oauthbearer_allow_unverified_issuer=boolean,
        sasl_oauthbearer_clock_skew_seconds=_any_int,
        sasl_oauthbearer_expected_audience=optional_text,
        sasl_oauthbearer_expected_issuer=optional_text,
        sasl_oauthbearer_jwks_endpoint_refresh_ms=_any_long,
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms=_any_long,
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms=_any_long,
        sasl_oauthbearer_jwks_endpoint_url=optional_text,
        sasl_oauthbearer_jwt_validator_class=_java_class,
        sasl_oauthbearer_scope_claim_name=optional_text,
        sasl_oauthbearer_sub_claim_name=optional_text,
        sasl_oauthbearer_assertion_algorithm=optional_text,
        sasl_oauthbearer_assertion_claim_aud=optional_text,
        sasl_oauthbearer_assertion_claim_exp_seconds=whole_number(0, 86_400),
        sasl_oauthbearer_assertion_claim_iss=optional_text,
        sasl_oauthbearer_assertion_claim_jti_include=boolean,
        sasl_oauthbearer_assertion_claim_nbf_seconds=whole_number(0, 3600),
        sasl_oauthbearer_assertion_claim_sub=optional_text,
        sasl_oauthbearer_assertion_file=optional_text,
        sasl_oauthbearer_assertion_private_key_file=optional_text,
        sasl_oauthbearer_assertion_private_key_passphrase=optional_text,
        sasl_oauthbearer_assertion_template_file=optional_text,
        ssl_keymanager_algorithm=optional_text,
        ssl_keystore_password=optional_text,
        ssl_protocol=optional_text,
        ssl_provider=optional_text,
        ssl_secure_random_implementation=optional_text,
        ssl_trustmanager_algorithm=optional_text,
        ssl_truststore_password=optional_text,
        socket_connection_setup_timeout_max_ms=_any_long,
        bootstrap_resolve_timeout_ms=_long,
        metadata_cluster_check_enable=boolean,
        metadata_max_idle_ms=whole_number(5000, _LONG),
        metadata_recovery_rebootstrap_trigger_ms=_long,
        metadata_recovery_strategy=one_of("REBOOTSTRAP", "NONE"),
        metric_reporters=optional_text,
        metrics_num_samples=_positive,
        metrics_recording_level=one_of("INFO", "DEBUG", "TRACE"),
        metrics_sample_window_ms=_long,
        allow_auto_create_topics=boolean,
        buffer_memory=_long,
        buffer_memory_allocation_strategy=one_of("full", "incremental"),
        check_crcs=boolean,
        exclude_internal_topics=boolean,
        fetch_min_bytes=_int,
        heartbeat_interval_ms=_any_int,
        max_block_ms=_long,
        max_partition_fetch_bytes=_int,
        max_poll_interval_ms=_positive,
        max_poll_records=_positive,
        max_request_size=_int,
        session_timeout_ms=_any_int,
        compression_type=one_of("none", "gzip", "snappy", "lz4", "zstd"),
        compression_gzip_level=whole_number(-1, 9),
        compression_lz4_level=whole_number(1, 17),
        compression_zstd_level=whole_number(-131_072, 22),
        batch_size=_int,
        linger_ms=_long,
        delivery_timeout_ms=_int,
        retries=_int,
        max_in_flight_requests_per_connection=_positive,
    ),
    *_of(
        Effect.REPLACED,
        acks=one_of("all", "-1", "0", "1"),
        auto_commit_interval_ms=_int,
        auto_include_jmx_reporter=boolean,
        auto_offset_reset=optional_text,
        bootstrap_controllers=optional_text,
        config_providers=optional_text,
        enable_auto_commit=boolean,
        enable_idempotence=boolean,
        group_id=optional_text,
        group_instance_id=optional_text,
        group_protocol=one_of("CONSUMER", "CLASSIC"),
        group_remote_assignor=optional_text,
        interceptor_classes=optional_text,
        internal_leave_group_on_close=boolean,
        internal_throw_on_fetch_stable_offset_unsupported=boolean,
        isolation_level=one_of("read_committed", "read_uncommitted"),
        key_deserializer=_java_class,
        key_serializer=_java_class,
        partition_assignment_strategy=optional_text,
        partitioner_adaptive_partitioning_enable=boolean,
        partitioner_availability_timeout_ms=_long,
        partitioner_class=_java_class,
        partitioner_ignore_keys=boolean,
        partitioner_rack_aware=boolean,
        share_acknowledgement_mode=one_of("implicit", "explicit"),
        share_acquire_mode=one_of("batch_optimized", "record_limit"),
        transaction_timeout_ms=_any_int,
        transaction_two_phase_commit_enable=boolean,
        transactional_id=optional_text,
        value_deserializer=_java_class,
        value_serializer=_java_class,
    ),
)
CLIENT_KEYS: Final[Mapping[str, ClientKey]] = {key.name: key for key in _KEYS}
"""The keys of Kafka's Java clients, by name."""


def check_client_keys(properties: Mapping[str, str], where: str) -> None:
    """Check the keys of a client, and the values of those that a Java client has.

    Args:
        properties: The keys after `upstream.`.
        where: The file and `upstream.`, for errors; no error repeats a value.

    Raises:
        ConfigurationError: A value is wrong, a key is not known, or names a class that would have
            to run.
    """
    for name, value in properties.items():
        key = CLIENT_KEYS.get(name)
        if key is None:
            if fault := fault_of_key(name, where.rpartition(" ")[2], CLIENT_KEYS):
                raise ConfigurationError(f"{where}{name} {fault}")
            continue
        if key.effect is Effect.REFUSED and value.strip():
            raise ConfigurationError(
                f"{where}{name} must be left out: Penstock's client is written in Python, and "
                "cannot load a Java class"
            )
        try:
            key.read(value)
        except ValueError as error:
            raise ConfigurationError(f"{where}{name} must be {error}") from None
