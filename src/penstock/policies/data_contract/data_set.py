"""The rules of a contract about a data set, which are judged on stored records (`penstock audit`).

Each record contributes values to a rule. These are counted, and the sums of all records are
compared with the limits, so parts of a topic can be counted separately. Source: "Data Quality" and
"Service-Level Agreement" of the Open Data Contract Standard 3.1.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import operator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonschema_rs
import orjson

from penstock.policies.data_contract.document import listed
from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.quality import (
    Concern,
    NotJudged,
    is_error,
    is_percent,
    name_of_rule,
    schema_of_metric,
    schema_of_rule,
    severity_of,
)
from penstock.policies.json_schema.ecma import Translation
from penstock.policies.json_schema.library import bounded_validator
from penstock.policies.json_schema.validity import about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Path = tuple[str | int, ...]

_ITEMS: Final = 0
_VALUES: Final = 1
_DIGEST_BYTES: Final = 16
_AHEAD_MOST_MS: Final = 3_600_000
"""So far may a clock be ahead: the default of `message.timestamp.after.max.ms` (KIP-1030)."""
_OPERATORS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "mustBe": ("must be", operator.eq),
    "mustNotBe": ("must not be", operator.ne),
    "mustBeGreaterThan": ("must be greater than", operator.gt),
    "mustBeGreaterOrEqualTo": ("must be at least", operator.ge),
    "mustBeLessThan": ("must be less than", operator.lt),
    "mustBeLessOrEqualTo": ("must be at most", operator.le),
    "mustBeBetween": ("must be between", lambda value, two: two[0] <= value <= two[1]),
    "mustNotBeBetween": ("must not be between", lambda value, two: not two[0] <= value <= two[1]),
}
_SECONDS: Final = {
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86_400, "day": 86_400, "days": 86_400,
    "w": 604_800, "week": 604_800, "weeks": 604_800,
}  # fmt: skip


class Totals(NamedTuple):
    """The sums of a rule over records.

    Attributes:
        bad: Those with the flaw.
        distinct: The different values, where they are compared.
        latest: The latest instant, in ms since 1970; None without one.
    """

    total: int = 0
    bad: int = 0
    distinct: int = 0
    latest: int | None = None


class Contribution(NamedTuple):
    """The contribution of a record to a rule.

    Attributes:
        bad: Those with the flaw.
        latest: The latest instant, in ms since 1970; None without one.
        digests: Of each value, where values are compared.
    """

    total: int = 0
    bad: int = 0
    latest: int | None = None
    digests: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class DataSetRule:
    """A rule about all records of a topic.

    Attributes:
        place: The object, or the property, that it is about.
        limits: Operators of ODCS, with their numbers.
        unit: What the number counts; empty for values.
        severity: The text of the contract; empty if it has none.
        is_error: Whether the audit fails if the rule is broken.
        schema: The schema of valid values, for `invalidValues` and `missingValues`.
        seconds: Of the unit, for `freshness`.
    """

    place: str
    name: str
    metric: str
    limits: tuple[tuple[str, Any], ...]
    unit: str = ""
    paths: tuple[Path, ...] = ()
    severity: str = ""
    is_error: bool = True
    schema: str = ""
    seconds: int = 1

    @property
    def limit(self) -> str:
        """What the rule demands, for people."""
        unit = f" {self.unit}" if self.unit else ""
        return " and ".join(
            f"{_OPERATORS[key][0]} {_shown(number)}{unit}" for key, number in self.limits
        )

    def look(self, row: Any, timestamp: int, now_ms: int) -> Contribution:
        """Return the contribution of a record.

        Args:
            row: Its value; None if it is not JSON.
            timestamp: Of the record, in ms; negative without one.
            now_ms: The time. An instant that is further ahead than clocks differ does not count.
        """
        if self.metric == "rowCount":
            return Contribution(1)
        if self.metric == "freshness":
            return self._instant(row, timestamp, now_ms + _AHEAD_MOST_MS)
        values = _values(row, self.paths[0])
        if self.metric == "duplicateValues":
            return self._digests(row, values)
        count = bad = 0
        for value in values:
            count += 1
            bad += self._is_bad(value)
        return Contribution(count, bad)

    def measured(self, totals: Totals, now_ms: int) -> float | None:
        """Return the value that the rule compares with its limits; None without records to measure.

        Args:
            totals: Of all records.
        """
        if self.metric == "rowCount":
            return totals.total
        if self.metric == "freshness":
            if totals.latest is None:
                return None
            return round(max(now_ms - totals.latest, 0) / 1000 / self.seconds, 3)
        bad = totals.bad
        if self.metric == "duplicateValues":
            bad = totals.total - totals.distinct
        if self.unit != "%":
            return bad
        return 100 * bad / totals.total if totals.total else None

    def holds(self, measured: float | None) -> bool | None:
        """Return whether a measured value is within the limits; None for a share of no values."""
        if measured is None:
            return None if self.unit == "%" else False
        return all(_OPERATORS[key][1](measured, number) for key, number in self.limits)

    def _is_bad(self, value: Any) -> bool:
        if value is None:
            return self.metric != "invalidValues"
        return bool(self.schema) and not _validator(self.schema).is_valid(value)

    def _digests(self, row: Any, values: Iterator[Any]) -> Contribution:
        if len(self.paths) > 1:  # the properties together are one value
            parts = [next(_values(row, path), None) for path in self.paths]
            values = iter(() if None in parts else (parts,))
        digests = tuple(_digest(value) for value in values if value is not None)
        return Contribution(len(digests), 0, None, digests)

    def _instant(self, row: Any, timestamp: int, latest: int) -> Contribution:
        if not self.paths:
            return Contribution(1, 0, timestamp if 0 <= timestamp <= latest else None)
        times = [_milliseconds(value) for value in _values(row, self.paths[0])]
        valid_times = [time for time in times if time is not None and time <= latest]
        return Contribution(len(times), 0, max(valid_times, default=None))


class DataSetRules(NamedTuple):
    """The rules of a contract about all records of a topic together.

    Attributes:
        title: The contract and the object.
        rules: What can be measured.
        not_judged: What cannot be, with reasons.
    """

    title: str
    rules: tuple[DataSetRule, ...]
    not_judged: tuple[NotJudged, ...]


def data_set_rules(
    title: str,
    name: str,
    definition: Mapping[str, Any],
    agreed: Sequence[Mapping[str, Any]],
    others: Sequence[NotJudged],
) -> DataSetRules:
    """Return the rules about a data set.

    Args:
        title: The contract and the object, for people.
        name: The object's name.
        definition: The object, as it is written.
        agreed: The promises of the contract about it: `slaProperties`.
        others: The parts of the contract by which records are not judged.
    """
    reader = _DataSetRulesReader(
        definition, [entry for entry in others if entry.concern is not Concern.DATA_SET]
    )
    reader.of_object(name)
    for promise in agreed:
        reader.promise(promise, name)
    return DataSetRules(title, tuple(reader.rules), tuple(reader.not_judged))


class _DataSetRulesReader:
    def __init__(self, definition: Mapping[str, Any], not_judged: list[NotJudged]) -> None:
        self._definition = definition
        self.rules: list[DataSetRule] = []
        self.not_judged = not_judged

    def of_object(self, name: str) -> None:
        """Read the rules of the object, and of its properties."""
        definition = self._definition
        keys = [
            (_name(field),)
            for field in listed(definition, "properties", name)
            if field.get("primaryKey") is True
        ]
        if keys:
            text = f"primaryKey {', '.join(key for (key,) in keys)}"
            self._unique(name, text, tuple(keys))
        for rule in listed(definition, "quality", name):
            self._rule(rule, name, None)
        self._properties(definition, name, ())

    def promise(self, promise: Mapping[str, Any], name: str) -> None:
        """Read an entry of `slaProperties`."""
        title = str(promise.get("property"))[:100]
        element = str(promise.get("element") or name).strip()
        place = element[:100]
        unit = str(promise.get("unit")).strip()
        seconds = None if unit == "M" else _SECONDS.get(unit.lower())  # M is a month
        value = promise.get("value")
        inner = element.removeprefix(f"{name}.")
        path = () if element == name else self._path(inner)
        if title not in {"freshness", "latency"} or "," in element:
            self._cannot(place, title, "no promise but freshness and latency is measured")
        elif seconds is None or not _is_number(value):
            self._cannot(place, title, "it has no number with a unit of time, such as 4 and d")
        elif path is None:
            self._cannot(place, title, _no_property(inner))
        else:
            self.rules.append(
                DataSetRule(
                    place,
                    title,
                    "freshness",
                    (("mustBeLessOrEqualTo", value),),
                    unit=unit,
                    paths=(path,) if path else (),
                    seconds=seconds,
                )
            )

    def _properties(self, parent: Mapping[str, Any], place: str, path: Path) -> None:
        for field in self._listed(parent, "properties", place):
            name = _name(field)
            self._property(field, f"{place}.{name}", (*path, name))

    def _property(self, field: Mapping[str, Any], place: str, path: Path) -> None:
        if field.get("unique") is True:
            self._unique(place, "unique", (path,))
        for rule in self._listed(field, "quality", place):
            self._rule(rule, place, path)
        self._properties(field, place, path)
        items, of_map = field.get("items"), field.get("map")
        if isinstance(items, dict):
            self._property(items, f"{place}[*]", (*path, _ITEMS))
        if isinstance(of_map, dict) and isinstance(of_map.get("value"), dict):
            self._property(of_map["value"], f"{place}[*]", (*path, _VALUES))

    def _unique(self, place: str, name: str, paths: tuple[Path, ...]) -> None:
        zero = (("mustBe", 0),)
        self.rules.append(DataSetRule(place, name, "duplicateValues", zero, paths=paths))

    def _rule(self, rule: Mapping[str, Any], place: str, path: Path | None) -> None:
        try:
            rule_schema = schema_of_rule(rule, place, of_property=path is not None)
            if isinstance(rule_schema, NotJudged) and rule_schema.concern is Concern.DATA_SET:
                self.rules.append(self._measured(rule, place, path))
            # any other is judged with each record, or among the others already
        except ContractError as error:  # a gateway does not need the rule, and has to start
            self._cannot(place, name_of_rule(rule), str(error).removeprefix(f"{place}: "))

    def _measured(self, rule: Mapping[str, Any], place: str, path: Path | None) -> DataSetRule:
        """Return a rule that can be measured.

        Raises:
            ContractError: It cannot be.
        """
        metric = str(rule.get("metric") or rule.get("rule"))
        limits = tuple((key, rule[key]) for key in _OPERATORS if rule.get(key) is not None)
        wrong = _why_not(metric, path, limits)
        if wrong:
            raise ContractError(wrong)
        return DataSetRule(
            place,
            name_of_rule(rule),
            metric,
            limits,
            unit="%" if is_percent(rule) else "",
            paths=self._paths(metric, rule) if path is None else (path,),
            severity=severity_of(rule),
            is_error=is_error(rule),
            schema=_schema(metric, rule, place),
        )

    def _paths(self, metric: str, rule: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the paths of the properties that are one value together, of an object's rule."""
        if metric != "duplicateValues":
            return ()
        arguments = rule.get("arguments")
        names = arguments.get("properties") if isinstance(arguments, dict) else None
        if not isinstance(names, list) or not names or not all(map(_is_text, names)):
            raise ContractError("duplicateValues of an object needs arguments.properties")
        paths = []
        for name in names:
            path = self._path(name)
            if path is None:
                raise ContractError(_no_property(name))
            paths.append(path)
        return tuple(paths)

    def _path(self, name: str) -> Path | None:
        return _path_of(name, self._definition)

    def _listed(self, parent: Mapping[str, Any], key: str, place: str) -> list[Mapping[str, Any]]:
        try:
            return listed(parent, key, place)
        except ContractError as error:  # where no record is judged, or it would be refused
            self._cannot(place, key, str(error).removeprefix(f"{place}: "))
            return []

    def _cannot(self, place: str, name: str, why: str) -> None:
        self.not_judged.append(NotJudged(place, name, Concern.DATA_SET, why))


def _why_not(metric: str, path: Path | None, limits: Sequence[tuple[str, Any]]) -> str:
    if metric not in {
        "rowCount",
        "nullValues",
        "missingValues",
        "invalidValues",
        "duplicateValues",
    }:
        return f"the metric {metric} is not known"
    if (metric == "rowCount") == (path is not None) and metric != "duplicateValues":
        return f"{metric} is not about {'an object' if path is None else 'a property'}"
    if not limits:
        return f"it has none of {', '.join(_OPERATORS)}"
    for key, number in limits:
        numbers = number if key.endswith("Between") else [number]
        count = 2 if key.endswith("Between") else 1
        if (
            not isinstance(numbers, list)
            or len(numbers) != count
            or not all(map(_is_number, numbers))
        ):
            return f"{key} must have {'two numbers' if count == 2 else 'a number'}"
    return ""


def _schema(metric: str, rule: Mapping[str, Any], place: str) -> str:
    """Return the schema of valid values; empty for any value."""
    if metric not in {"missingValues", "invalidValues"}:
        return ""
    metric_schema = schema_of_metric(metric, rule, place, name_of_rule(rule))
    if isinstance(metric_schema, NotJudged):
        raise ContractError(metric_schema.why)
    metric_schema.pop("required", None)
    try:
        schema = orjson.dumps(metric_schema).decode()
    except orjson.JSONEncodeError as error:
        raise ContractError(f"its arguments cannot be compared with values: {error}") from None
    try:
        _validator(schema)
    except ValueError as error:
        raise ContractError(f"what it demands {about(error)}") from None
    return schema


def _path_of(name: str, parent: Mapping[str, Any]) -> Path | None:
    """Return the path of a property, by names or physical names with dots; None without it."""
    raw_properties = parent.get("properties")
    properties = raw_properties if isinstance(raw_properties, list) else ()
    for key in ("name", "physicalName"):
        for field in properties:
            field_name = field.get(key) if isinstance(field, dict) else None
            if not isinstance(field_name, str) or not field_name:
                continue
            if name == field_name:
                return (_name(field),)
            if name.startswith(f"{field_name}."):
                inner = _path_of(name.removeprefix(f"{field_name}."), field)
                if inner is not None:
                    return (_name(field), *inner)
    return None


def _values(row: Any, path: Path) -> Iterator[Any]:
    """Yield the values at a path; None for a property that is not there."""
    if not path:
        yield row
        return
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        yield from _values(row.get(step) if isinstance(row, dict) else None, rest)
    elif step == _ITEMS and isinstance(row, list):
        for item in row:
            yield from _values(item, rest)
    elif step == _VALUES and isinstance(row, dict):
        for item in row.values():
            yield from _values(item, rest)


def _digest(value: Any) -> bytes:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # a number beyond 64 bits
        content = repr(value).encode()
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _milliseconds(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        instant = dt.datetime.fromisoformat(value)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=dt.UTC)
        return int(instant.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


_VALIDATORS: Final[dict[str, Any]] = {}


def _validator(schema: str) -> Any:
    validator = _VALIDATORS.get(schema)
    if validator is None:
        document = Translation(is_native=False).document(orjson.loads(schema))
        make = partial(jsonschema_rs.Draft202012Validator, document)
        validator = _VALIDATORS[schema] = bounded_validator(make)
    return validator


def _name(field: Mapping[str, Any]) -> str:
    return str(field.get("physicalName") or field.get("name"))


def _no_property(name: str) -> str:
    return f"there is no property {name[:100]}"


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _shown(number: Any) -> str:
    return " and ".join(map(str, number)) if isinstance(number, list) else str(number)
