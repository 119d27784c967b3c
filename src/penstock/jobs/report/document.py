"""`report.json`: the result of an audit, as it is written and read again.

`docs/report.schema.json` describes the same to programs in other languages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from penstock import __version__
from penstock.configuration import ConfigurationError
from penstock.engine.all_objections import WARNING_MODES
from penstock.engine.path_counts import PathCount
from penstock.engine.verdict import REJECTED

if TYPE_CHECKING:
    from pathlib import Path

REASONS_MAX: Final = 1000
"""The maximum number of reasons in a report; the others are counted together."""
HINTS_MAX: Final = 50
"""The maximum number of hints of each kind; the others are counted together."""
OTHER_HINTS: Final = "(others)"
FRAME: Final = "a frame"
"""The source of an audit of a frame, which has no name."""


class Entry(BaseModel):
    """A part of a report. What later versions add to it is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class OutcomeCounts(Entry):
    """Records by outcome."""

    accepted: NonNegativeInt = 0
    refused: NonNegativeInt = 0
    dropped: NonNegativeInt = 0
    failed: NonNegativeInt = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.accepted + self.refused + self.dropped + self.failed

    @property
    def turned_away(self) -> int:
        """Those that were refused or failed."""
        return self.refused + self.failed


class SampleEntry(Entry):
    """Where one of the records is; with its contents only where they were requested."""

    partition: int
    offset: int
    key: str | None = None
    value: str | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class ComparedReason(Entry):
    """Why records were not accepted under one of two plans."""

    topic: str | None = None
    policy: str | None
    code: int
    message: str | None
    count: NonNegativeInt


class ReasonEntry(ComparedReason):
    """Why records were not accepted, and some of them."""

    outcome: str
    samples: tuple[SampleEntry, ...] = ()

    @property
    def turns_away(self) -> bool:
        """Whether the records were refused or failed, and not dropped."""
        return self.outcome in REJECTED


class PolicyEntry(Entry):
    """A policy, and the records of a topic that it did not accept.

    Attributes:
        topic: The topic; None in reports of before there were several.
        count: The records, those that were dropped among them.
        turned_away: The records that were refused or failed; None in old reports.
    """

    topic: str | None = None
    policy: str
    count: NonNegativeInt
    turned_away: NonNegativeInt | None = None


class RuleEntry(Entry):
    """A rule that objects to rows, whatever else does.

    Attributes:
        policy: The policy that has it.
        rule: Its name; None for a policy without rules.
        mode: The policy's mode: with `mark` and `observe`, it only warns.
        count: The rows that it objects to.
        share: Their share of all rows.
        samples: The labels of some of them.
    """

    policy: str
    rule: str | None
    mode: str
    count: NonNegativeInt
    share: float
    samples: tuple[str | None, ...] = ()

    @property
    def title(self) -> str:
        """The rule, for people."""
        name = self.policy if self.rule is None else f"{self.policy}.{self.rule}"
        return f"{name} ({self.mode})" if self.only_warns else name

    @property
    def only_warns(self) -> bool:
        """Whether the rows are accepted nevertheless."""
        return self.mode in WARNING_MODES


class ColumnEntry(Entry):
    """A column of rows, and those that are not accepted because of it, where that is known."""

    column: str
    count: NonNegativeInt
    share: float


class TopicEntry(OutcomeCounts):
    """A topic; `share` is the share of records that were refused or failed."""

    topic: str
    judged: NonNegativeInt
    share: float


class PartitionEntry(OutcomeCounts):
    """A partition; with where the first and the last refused record is."""

    topic: str | None = None
    partition: int
    first_refused_offset: int | None
    last_refused_offset: int | None


class HourEntry(OutcomeCounts):
    """A bin of time: its start in ISO 8601; None for records without a time."""

    hour: str | None


class HintEntry(Entry):
    """A hint at whose producer records came from."""

    hint: str
    count: NonNegativeInt


class ComparedOutcomes(Entry):
    """Records by their outcome under two plans."""

    this: str
    other: str
    count: NonNegativeInt


class ComparedEntry(Entry):
    """What a second plan decided."""

    newly_refused: NonNegativeInt
    newly_accepted: NonNegativeInt
    outcomes: tuple[ComparedOutcomes, ...] = ()
    newly_refused_reasons: tuple[ComparedReason, ...] = ()
    newly_accepted_reasons: tuple[ComparedReason, ...] = ()


class RangeEntry(Entry):
    """The offsets of a partition that were read: from the first, up to before the last."""

    topic: str | None = None
    partition: int
    start: int = Field(validation_alias=AliasChoices("from", "start"), serialization_alias="from")
    end: int = Field(validation_alias=AliasChoices("to", "end"), serialization_alias="to")


class Share(Entry):
    """Some of the records that were judged."""

    count: NonNegativeInt
    judged: NonNegativeInt

    @property
    def share(self) -> float:
        """The share; 0 without records."""
        return self.count / self.judged if self.judged else 0.0


class WorseEntry(Entry):
    """Records that are turned away more often than at the baseline.

    Attributes:
        topic: In which topic.
        policy: By which policy; None for any.
        code: For which reason: the code; None for any.
        message: For which reason: the message.
        before: How often it was turned away at the baseline.
        now: How often it is now.
    """

    topic: str
    policy: str | None = None
    code: int | None = None
    message: str | None = None
    before: Share
    now: Share


class BaselineEntry(Entry):
    """The comparison with an earlier report.

    Attributes:
        file: The earlier report.
        written: When it was written.
        topics: The topics that are in both reports.
        tolerance: By how much a share may rise.
        worse: What got worse, most records first, topics before policies before reasons.
        notes: What could not be compared, and what else makes the two different.
    """

    file: str
    written: str
    topics: tuple[str, ...] = ()
    tolerance: float
    worse: tuple[WorseEntry, ...] = ()
    notes: tuple[str, ...] = ()


class About(Entry):
    """The subject of an audit, and its settings.

    Attributes:
        source: The topics or the files.
        is_topic: Whether it is topics.
        is_rows: Whether it is rows of any columns, instead of records.
        bootstrap_server: The cluster, where it was named on the command line.
        ranges: The offsets that were read; none for files.
        lost: Offsets of the ranges that were removed before they were read.
        file: The configuration file.
        fingerprint: A hash of everything that its verdicts depend on.
        plans: The digest of each topic's plan, as `penstock check` prints it; missing in reports of
            earlier versions.
        keys: The keys of the file that enable policies for the topics, with their values.
        other: The file it was compared with, or None.
        fail_over: The largest share of records that may be turned away, or None.
        seconds: How long it took.
        penstock: The version that wrote it.
        written: When, in ISO 8601.
    """

    source: str
    is_topic: bool = True
    is_rows: bool = False
    bootstrap_server: str | None = None
    ranges: tuple[RangeEntry, ...] = Field(
        default=(), validation_alias=AliasChoices("range", "ranges"), serialization_alias="range"
    )
    lost: tuple[RangeEntry, ...] = ()
    file: str
    fingerprint: str
    plans: Mapping[str, str] = Field(default_factory=dict)
    keys: tuple[str, ...] = ()
    other: str | None = None
    fail_over: float | None = None
    seconds: float = 0.0
    penstock: str = __version__
    written: str = ""

    @property
    def unit(self) -> str:
        """Rows or records, for texts."""
        return "rows" if self.is_rows else "records"


class ContractRuleEntry(Entry):
    """A rule of a contract about all records of a topic.

    Attributes:
        place: The object, or the property, that it is about.
        metric: The name of the metric; None if the rule is not judged.
        measured: The number; None if there was nothing to measure.
        limit: What the rule demands.
        held: Whether it is met; None if the rule is not judged.
        severity: The severity in the contract, if it has one.
        is_error: Whether the audit fails if the rule is not met.
        why: Why the rule is not judged.
    """

    place: str
    name: str
    metric: str | None = None
    measured: float | None = None
    limit: str | None = None
    held: bool | None = None
    severity: str | None = None
    is_error: bool = False
    why: str | None = None

    @property
    def title(self) -> str:
        """The rule, for people."""
        return f"{self.place}: {self.name}"

    @property
    def shown(self) -> str:
        """The measured value, and the required value, as text."""
        if self.held is None:
            return f"not judged: {self.why}"
        return f"{self.measured_text}; {self.limit}"

    @property
    def measured_text(self) -> str:
        """The measured value, as text."""
        if self.held is None:
            return ""
        if self.measured is None:
            return "nothing"
        whole = int(self.measured)
        return f"{whole:,}" if whole == self.measured else f"{self.measured:,.3f}"


class ContractEntry(Entry):
    """A contract, and its rules about all records of a topic.

    Attributes:
        policy: The policy that names the contract.
        contract: The contract and its object.
    """

    topic: str
    policy: str
    contract: str
    rules: tuple[ContractRuleEntry, ...] = ()

    @property
    def broken(self) -> tuple[ContractRuleEntry, ...]:
        """The rules with the severity of an error that the data breaks."""
        return tuple(rule for rule in self.rules if rule.held is False and rule.is_error)


class PathEntry(Entry):
    """A path of a policy.

    Attributes:
        values: How many values the policy read.
        found: In how many of them the path led to a field.
    """

    policy: str
    path: str
    values: NonNegativeInt
    found: NonNegativeInt

    @property
    def shown(self) -> str:
        """The path that led to no field, for people."""
        return str(PathCount(self.policy, self.path, self.values, self.found))


class Report(OutcomeCounts):
    """The document."""

    judged: NonNegativeInt
    share: float
    topics: tuple[TopicEntry, ...] = ()
    reasons: tuple[ReasonEntry, ...] = ()
    reasons_left_out: NonNegativeInt = 0
    policies: tuple[PolicyEntry, ...] = ()
    rules: tuple[RuleEntry, ...] = ()
    columns: tuple[ColumnEntry, ...] = ()
    partitions: tuple[PartitionEntry, ...] = ()
    hours: tuple[HourEntry, ...] = ()
    hours_width: int = 1
    out_of_range: OutcomeCounts = OutcomeCounts()
    header_keys: tuple[HintEntry, ...] = ()
    key_prefixes: tuple[HintEntry, ...] = ()
    compared: ComparedEntry | None = None
    baseline: BaselineEntry | None = None
    contracts: tuple[ContractEntry, ...] = ()
    paths: tuple[PathEntry, ...] = ()
    about: About

    @property
    def unfound_paths(self) -> tuple[PathEntry, ...]:
        """The paths of policies that led to no field of any value."""
        return tuple(path for path in self.paths if not path.found)


def as_json(report: Report) -> str:
    """Return the text of `report.json`."""
    document = report.model_dump(mode="json", by_alias=True)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_report(path: Path, *, key: str) -> Report:
    """Read a `report.json`, of this version or an earlier version.

    Args:
        key: The option it was given with, for errors.

    Raises:
        ConfigurationError: It cannot be read, or is not a `report.json`.
    """
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"{key} {path}: {error.strerror}; name the report.json of an earlier audit"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f"{key} {path}: not a report.json of penstock audit: "
            + (f"{place}: " if place else "")
            + first["msg"]
        ) from None
