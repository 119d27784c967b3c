"""Writes the configuration reference, `docs/configuration.md`, from the table of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.clients.client_keys import CLIENT_KEYS, Effect
from penstock.configuration.installed_policies import GROUP, described_own_policies
from penstock.configuration.keys import Keys, extra
from penstock.configuration.topic_keys import TOPIC_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

    from penstock.policy import ConfigKey, TopicConfig

_HEAD: Final = """\
# Configuration reference

This page lists the keys of the gateway's file, a Kafka-style `.properties` file in UTF-8. Keys that
Kafka also has have Kafka's meaning.

- A value can have `${env:NAME}`, `${file:PATH}` (the file's text) or `${file:PATH:KEY}` (a property
  in it). A missing variable or file, or any other `${`, is an error.
- Paths are relative to the file's folder. Policies are imported from there first.
- A class is `package.module.Class` or `package.module:Class`.
- An unknown key that is close to a known key is an error with a suggestion. Any other unknown key
  causes a warning, and policies receive it.
- SIGHUP [reloads](operations.md#change-the-file-and-policies) the file.
- An error names the file and the key, and ends the program with exit code 2.
- The gateway's principal creates the topics that Penstock writes to, and needs
  [ACLs](security.md#logins-and-acls) for them.
"""

_UPSTREAM: Final = """\
## Keys of Kafka's clients after `upstream.`

Any key of Kafka's admin client, consumer or producer for Java can follow `upstream.`, so you can
copy a Java client's file. Error messages contain no values.

- `upstream.sasl.mechanism` is `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` or
  `GSSAPI`. User and password are options of `upstream.sasl.jaas.config`, or librdkafka's
  `upstream.sasl.username` and `upstream.sasl.password`.
- GSSAPI needs the Python package `gssapi`, also on executors, and the environment variable
  `KRB5_CLIENT_KTNAME` (keytab) or `KRB5CCNAME` (ticket cache). Its option is `principal`.
- OAUTHBEARER gets a token from `upstream.sasl.oauthbearer.token.endpoint.url` (KIP-768):
  `https:` or `http:` with the client credentials grant, or `file:`. Client id, secret and scope
  are the options `clientId`, `clientSecret` and `scope` of `upstream.sasl.jaas.config`, or the
  keys of KIP-1139; the option `ssl.truststore.location` (PEM, also on Spark's
  executors) has the endpoint's certificates. `upstream.sasl.login.callback.handler.class` can only
  name Kafka's handler. For tests, `unsecuredLoginStringClaim_sub` creates unsigned tokens.
- Key and trust stores, the listener's too, are PEM: a file (`location`), or the text
  (`upstream.ssl.keystore.key`, `upstream.ssl.keystore.certificate.chain`,
  `upstream.ssl.truststore.certificates`). Java key stores (JKS, PKCS12) are an error.
- Kafka's Java client (4.0 and newer, but not Spark 4.2's) only contacts the endpoints in its
  system property `org.apache.kafka.sasl.oauthbearer.allowed.urls`.
- Other keys of librdkafka are an error with Kafka's name; so are unknown keys.

| keys | effect |
|---|---|
"""

_TOPICS: Final = """\
## Topic level keys

`topics.<glob>.<key>=<value>` sets a default for the topics whose name matches the glob (`*`, `?`,
`[...]`, case-sensitive). For each key, the longest matching glob wins, of equally long
globs the alphabetically first: `check` names such pairs. `penstock.mode`,
`penstock.quarantine.max.ratio`, `produce.rejection.reasons` and the keys of `errors.` can also be
set without `topics.<glob>.`. Admin tools cannot set `errors.*.replication.factor` and
`errors.*.headers.enable`.

| key | meaning |
|---|---|
"""

_DECLARED: Final = """\
### Keys that built-in policies declare

These keys apply if `record.validation.policy.class.name` names the policy. Your own classes can
also [declare keys](interfaces.md#declare-keys).

| policy | key | default | meaning |
|---|---|---|---|
"""
_OF_EFFECT: Final = {
    Effect.REPLACED: "keys of producers and consumers, such as `acks` and `group.id`",
    Effect.JAVA: "any other key of Kafka's clients",
}
_OF_POLICY: Final = """\
## Keys of `{}`

These keys apply if `record.validation.policy.class.name` names the policy.
[Built-in policies](built-in.md) has the keys of other policies.

| key | default | meaning |
|---|---|---|
"""


def reference() -> str:
    """Return the reference as Markdown."""
    sections: dict[str, list[FieldInfo]] = {}
    for field in Keys.model_fields.values():
        sections.setdefault(extra(field)["section"], []).append(field)
    parts = [_HEAD]
    for section, fields in sections.items():
        table = "| key | default | meaning |\n|---|---|---|\n" + "".join(map(_row, fields))
        parts.append(f"## {section}\n\n{_restarts(fields)}{table}")
    parts.append(_UPSTREAM + _client_keys())
    topics = "".join(f"| `{key.name}` | {key.meaning} |\n" for key in TOPIC_KEYS.values())
    parts.append(_TOPICS + topics)
    declaring = {
        name: policy for name, policy in described_own_policies().items() if policy.topic_configs
    }
    declared = (declared_keys(name, policy.topic_configs) for name, policy in declaring.items())
    parts.append(_DECLARED + "".join(declared))
    for name, policy in declaring.items():
        parts.append(
            _OF_POLICY.format(f"{GROUP}.{name}") + "".join(map(_key_row, policy.config_keys))
        )
    return "\n".join(parts)


def _restarts(fields: Sequence[FieldInfo]) -> str:
    """Return a paragraph that says which keys need a restart; empty if none does."""
    reloaded = [f"`{field.alias}`" for field in fields if extra(field)["reloaded"]]
    others = [f"`{field.alias}`" for field in fields if not extra(field)["reloaded"]]
    if not others:
        return ""
    if len(others) < len(reloaded):
        return f"Changes of {', '.join(others)} need a restart.\n\n"
    exceptions = f", except {', '.join(reloaded)}" if reloaded else ""
    return f"Changes need a restart{exceptions}.\n\n"


def _client_keys() -> str:
    """Return a row of keys for each effect."""
    rows = ""
    for effect in sorted(Effect, key=lambda effect: effect is Effect.JAVA):
        names = [f"`{key.name}`" for key in CLIENT_KEYS.values() if key.effect is effect]
        rows += f"| {_OF_EFFECT.get(effect) or ', '.join(names)} | {effect} |\n"
    return rows


def declared_keys(policy: str, declared: Sequence[TopicConfig]) -> str:
    """Return the lines for the topic level keys that a built-in policy declares.

    Args:
        policy: Its short name.
    """
    rows: list[str] = []
    for key in declared:
        default = "none" if key.default is None else f"`{key.default}`"
        meaning = key.documentation.removeprefix(f"{policy}: ")
        text = meaning[:1].upper() + meaning[1:] + _allowed(key.valid_values, meaning)
        rows.append(f"`{key.name}` | {default} | {text}")
    return _of_policy(policy, rows)


def _of_policy(policy: str, rows: Sequence[str]) -> str:
    """Return rows of a table with the name of the policy in front of the first."""
    names = [f"`{policy}`"] + [""] * len(rows)
    return "".join(f"| {name} | {row} |\n" for name, row in zip(names, rows, strict=False))


def _allowed(values: Sequence[str], text: str) -> str:
    """Return a sentence with the values that are allowed, unless the text names all of them.

    A class is named without its package if the class name alone is allowed, too.
    """
    short = [
        value for value in values if value.rpartition(".")[2] not in values or "." not in value
    ]
    if all(f"`{value}`" in text for value in short):
        return ""
    classes = ", also with Confluent's package" if len(short) < len(values) else ""
    return f" One of `{'`, `'.join(short)}`{classes}."


def default_text(field: FieldInfo) -> str:
    """Return a key's default as it would be written in the file; empty if there is none."""
    default = field.default
    if field.is_required() or default is None or default == ():
        return ""
    if type(default) is tuple:
        return ",".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)


def _key_row(key: ConfigKey) -> str:
    """Return the row of a key that a policy reads from the file."""
    default = f"`{key.default}`" if key.default else "none"
    return f"| `{key.name}` | {default} | {key.documentation} |\n"


def _row(field: FieldInfo) -> str:
    shown = extra(field)["shown_default"]
    if shown is None:
        default = default_text(field)
        none = "required" if field.is_required() else "none"
        shown = f"`{default}`" if default else none
    return f"| `{field.alias}` | {shown} | {field.description} |\n"
