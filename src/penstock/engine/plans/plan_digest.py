"""The identity of a topic's plan: a short digest of all that decides about the topic's records.

What counts:

- the policies in order: name, class, mode, own keys, the file's keys that their classes read, and
  the sources of users' classes (`policy_sources`);
- the topic level keys that hold for the topic, wherever they were set;
- schemas and contracts that keys name (`named_files`), and the URL of a schema registry;
- the versions of Penstock and its extension, and of packages that users' classes import;
- the limits of a batch (`decompressed.*`), and how refusals are answered.

Secrets, keys of connections, limits of memory and time, paths, and the topic's name do not. So a
topic has the digest of its pattern, in each process and on each machine, on the wire and on Spark.
It is computed when a plan is made, not for a record.

The policies for topics, and what policies read from a network, are not in it. `outcome_digest`
answers another question: whether two gateways cannot differ in any way.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__, _native
from penstock.configuration.declared_keys import VALIDATION, is_own
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS, VALIDATORS
from penstock.configuration.policies import NAMES
from penstock.configuration.policy_classes import PolicyClass, class_of_own
from penstock.configuration.topic_keys import ABOUT_BAD_RECORDS, TOPIC_KEYS, value_of
from penstock.configuration.values import dotted
from penstock.engine.plans.named_files import NamedFiles
from penstock.engine.plans.policy_sources import PolicySources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.plans.topic_plan import TopicPlan

_FORM: Final = 1
"""Of the text that is digested."""
HEX_DIGITS: Final = 12
_DIGESTS_MAX: Final = 10_000
INCOMPLETE: Final = "?"
"""Behind a digest without the content of some file, which could not be read."""
OF_FILE: Final = {
    "produce.rejection.scope": "partition",
    "produce.request.interceptors.failed.error.code": "-1",
    "produce.request.interceptors.idempotence": "translate",
    "decompressed.batch.max.bytes": "67108864",
    "decompressed.batch.max.records": "500000",
}
"""The keys of the file that decide about records of each topic, with their defaults."""
_CONNECTIONS: Final = (
    "upstream.", "ssl.", "sasl.", "schema.registry.basic.", "schema.registry.bearer.",
    "schema.registry.ssl.", "schema.registry.timeout.", "schema.registry.cache.",
)  # fmt: skip
_CONFIGURED: Final = frozenset({RECORDS, VALIDATION})
"""The keys of interfaces whose `configure()` gets the whole file."""
_FOLDER: Final = "json.schema.folder"
_SECRET: Final = re.compile(
    r"(?:^|[._-])(?:(?:pass(?:word|wd|phrase)?|secrets?|tokens?|credentials?|pepper|salt)(?:[._-]|$)"
    r"|user[._-]info|jaas[._-]config|(?:api|private|secret|access)[._-]?key|key[._-]from)",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]*@")


class PlanDigests:
    """The digests of the plans of a configuration.

    What the configuration names is read once, when this is made; what only a topic's own key names,
    at its first plan. It can be pickled: a copy elsewhere reads nothing.

    Attributes:
        unreadable: What could not be read for some plan, with the reason.
    """

    def __init__(self, configuration: PolicyConfiguration) -> None:
        """Read the sources and files that the configuration names.

        An error while reading is not raised: digests of plans that need it end with `INCOMPLETE`.
        """
        self.unreadable: dict[str, None] = {}
        self._configuration = configuration
        self._digest_cache: dict[tuple[object, ...], str] = {}
        self._others = dict(_others(configuration))
        folder = configuration.folder
        named_folders = [policy.configs.get(_FOLDER, "") for policy in configuration.named_policies]
        schemas = [configuration.properties.get(_FOLDER, ""), *named_folders]
        self._files = NamedFiles([*(folder / name.strip() for name in schemas if name), folder])
        self._sources = PolicySources([folder])
        self._validation_sources = (
            PolicySources([*configuration.class_path, folder])
            if configuration.class_path
            else self._sources
        )
        self._code_cache: dict[tuple[str, bool], tuple[Any, tuple[str, ...]]] = {}
        self._class_cache: dict[str, PolicyClass | None] = {}
        self._read_all()

    def of(self, plan: TopicPlan) -> str:
        """Return the digest of a topic's plan; plans that differ by their topics share it."""
        key = (
            *(plan.interceptors, plan.records_policy, plan.validators, plan.validation_policy),
            *(plan.validation_setting, plan.unusable, plan.named, plan.mode),
            *(plan.holds_dead_letters, plan.framework, tuple(plan.policy_modes.items())),
            frozenset(plan.settings.items()),
            frozenset(plan.validation_configs.items()),
        )
        digest = self._digest_cache.get(key)
        if digest is None:
            if len(self._digest_cache) >= _DIGESTS_MAX:
                self._digest_cache.clear()
            digest = self._digest_cache[key] = self._digest(plan)
        return digest

    def _digest(self, plan: TopicPlan) -> str:
        unreadable: list[str] = []
        text = json.dumps(self._canonical(plan, unreadable), sort_keys=True)
        self.unreadable |= dict.fromkeys(unreadable)
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:HEX_DIGITS]
        return f"{digest}{INCOMPLETE}" if unreadable else digest

    @property
    def warnings(self) -> list[str]:
        """What could not be read so far, as sentences."""
        return [
            f"{text}; digests of plans with {INCOMPLETE} are without it" for text in self.unreadable
        ]

    def _read_all(self) -> None:
        """Read what topics may have by the configuration alone."""
        configuration = self._configuration
        for policy in configuration.named_policies:
            self._code(policy.class_name, is_validation=False)
            for key, value in policy.configs.items():
                self._value(key, value, [])
        for key, value in self._others.items():
            self._value(key, value, [])
        validation = configuration.record_validation_policy_class_name
        if validation:
            self._code(validation, is_validation=True)
        records = (each.value for each in configuration.topic_defaults if each.key == RECORDS)
        for name in (
            *configuration.record_validator_classes,
            *configuration.produce_request_interceptors,
            *records,
        ):
            self._code(name, is_validation=False)
        for default in configuration.topic_defaults:
            self._files.content(default.value, anywhere=False)

    def _canonical(self, plan: TopicPlan, unreadable: list[str]) -> dict[str, Any]:
        """Return what counts, in a form in which equal plans are equal."""
        configs = {
            key: self._value(key, value, unreadable, of_topic=True)
            for key, value in plan.validation_configs.items()
        }
        setting = plan.validation_setting
        return {
            "form": _FORM,
            "penstock": [__version__, _native.__version__],
            "policies": list(self._policies(plan, unreadable)),
            "mode": plan.mode,
            "bad_records": {key: value_of(key, plan.settings) for key in ABOUT_BAD_RECORDS},
            "validation": [
                None
                if setting is None
                else self._value(VALIDATION, setting, unreadable, of_topic=True),
                configs,
            ],
            "unusable": plan.unusable,
            "holds_dead_letters": plan.holds_dead_letters,
            "framework": str(plan.framework),
            "file": {
                key: self._configuration.properties.get(key, default).strip().lower()
                for key, default in OF_FILE.items()
            },
        }

    def _policies(self, plan: TopicPlan, unreadable: list[str]) -> Iterator[dict[str, Any]]:
        """Yield what counts of each policy, in the order in which they judge."""
        named_by_key = [
            *((name, INTERCEPTORS) for name in plan.interceptors),
            *((name, RECORDS) for name in [plan.records_policy] if name),
            *((name, VALIDATORS) for name in plan.validators),
            *((name, VALIDATION) for name in [plan.validation_policy] if name),
            *((name, NAMES) for name in plan.named),
        ]
        for name, key in named_by_key:
            policy = self._configuration.named(name)
            class_name = name if policy is None else policy.class_name
            code, code_unreadable = self._code(class_name, is_validation=key == VALIDATION)
            unreadable += code_unreadable
            keys = self._keys_for(class_name, takes_keys=policy is not None or key in _CONFIGURED)
            if policy is not None:
                keys |= policy.topic_configs
                keys |= {
                    own: value
                    for own, value in policy.configs.items()
                    if own not in policy.topic_configs and own not in policy.secret_keys
                }
            yield {
                "name": name if policy is not None else "",
                "class": dotted(class_name),
                "key": key,
                "mode": plan.mode if key == INTERCEPTORS else plan.mode_of(name),
                "keys": {
                    own: self._value(own, value, unreadable)
                    for own, value in keys.items()
                    if _decides(own)
                },
                "code": code,
            }

    def _keys_for(self, class_name: str, *, takes_keys: bool) -> dict[str, str]:
        """Return the keys of the file, beside Penstock's own, that a class may read."""
        if not takes_keys:
            return {}
        if not is_own(class_name):
            return dict(self._others)
        policy_class = self._own_class(class_name)
        if policy_class is None:
            return {}
        return {
            key: value
            for key, value in self._others.items()
            if policy_class.key(key) is not None and not policy_class.is_secret(key)
        }

    def _own_class(self, class_name: str) -> PolicyClass | None:
        if class_name not in self._class_cache:
            try:
                self._class_cache[class_name] = class_of_own(class_name)
            except ValueError:  # the workers say so
                self._class_cache[class_name] = None
        return self._class_cache[class_name]

    def _code(self, class_name: str, *, is_validation: bool) -> tuple[Any, tuple[str, ...]]:
        """Return the sources of a class, and what of them cannot be read."""
        key = class_name, is_validation
        if key not in self._code_cache:
            if is_own(class_name):
                code: tuple[Any, tuple[str, ...]] = None, ()
            else:
                search = self._validation_sources if is_validation else self._sources
                sources = search.of_class(class_name)
                code = [sources.modules, sources.packages], tuple(sources.unreadable)
            self._code_cache[key] = code
        return self._code_cache[key]

    def _value(self, key: str, value: str, unreadable: list[str], *, of_topic: bool = False) -> str:
        """Return what counts of a value: the content of files, and no login of a URL."""
        content = self._files.content(value, anywhere=not of_topic)
        unreadable += (f"{key}: {reason}" for reason in content.unreadable)
        return _LOGIN.sub("", content.text)


def _decides(key: str) -> bool:
    return key != _FOLDER and not key.startswith(_CONNECTIONS) and not _SECRET.search(key)


def _others(configuration: PolicyConfiguration) -> Iterator[tuple[str, str]]:
    """Yield the keys of the file that only policies read."""
    from penstock.configuration.file import FILE_KEYS, LISTENER_TLS_KEYS  # noqa: PLC0415 - pydantic
    from penstock.configuration.producer_state_keys import FORMER_KEYS  # noqa: PLC0415

    names = {*FILE_KEYS, *LISTENER_TLS_KEYS, *FORMER_KEYS, *TOPIC_KEYS, *configuration.topic_keys}
    prefixes = ("topics.", *([f"{NAMES}."] if configuration.named_policies else []))
    for key, value in configuration.properties.items():
        if key not in names and not key.startswith(prefixes) and _decides(key):
            yield key, value
