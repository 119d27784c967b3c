"""Datasets of a declarative pipeline, and those that their expectations need.

A table that leaves rows out reads `<table>_judged`: each row of the query, judged once. Its counts
are a materialized view, `<table>_expectations`, which also counts the rows that are left out: each
row for the expectations that judged it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from pyspark import pipelines
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    get_active_graph_element_registry,
    graph_element_registration_context,
)
from pyspark.pipelines.source_code_location import get_caller_source_code_location
from pyspark.sql import SparkSession

from penstock.spark.pipelines.expectations import (
    Action,
    ExpectedQuery,
    as_expected,
    checked,
    counted,
    counted_in_table,
    expectation_of,
    kept,
    needs_all_rows,
    quarantined,
    with_checks,
)
from penstock.spark.pipelines.updates import (
    check_written_directly,
    check_written_from,
    may_be_same,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.output import Output
    from pyspark.pipelines.source_code_location import SourceCodeLocation
    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.expectations import Constraint, Expectation, Query

JUDGED: Final = "_judged"
"""The suffix of the table of all rows of a query, with the expectations that judged them."""
KEPT: Final = "_kept"
"""The suffix of the flow of the rows of such a table that are kept."""
COUNTS: Final = "_expectations"
"""The suffix of the table of the counts."""


def table(query_function: Query | None = None, **options: Any) -> Any:
    """Define a streaming table, as `pyspark.pipelines.table` does, with expectations of its rows.

    Args:
        query_function: Returns a streaming frame; given by Python if the decorator has no
            arguments.
        options: Those of `pyspark.pipelines.table`.

    Returns:
        A decorator if it has arguments, else None.
    """
    return _decorator(_define_table, query_function, options)


def materialized_view(query_function: Query | None = None, **options: Any) -> Any:
    """Define a materialized view, as `pyspark.pipelines.materialized_view` does.

    Args:
        query_function: Returns a batch frame; given by Python if the decorator has no arguments.
        options: Those of `pyspark.pipelines.materialized_view`.

    Returns:
        A decorator if it has arguments, else None.
    """
    return _decorator(_define_materialized_view, query_function, options)


def temporary_view(query_function: Query | None = None, **options: Any) -> Any:
    """Define a view, as `pyspark.pipelines.temporary_view` does, with expectations of its rows.

    Nothing is stored of a view, so there are no counts.

    Args:
        query_function: Returns a frame; given by Python if the decorator has no arguments.
        options: Those of `pyspark.pipelines.temporary_view`.

    Returns:
        A decorator if it has arguments, else None.
    """
    return _decorator(_define_temporary_view, query_function, options)


def _decorator(
    define: Callable[[ExpectedQuery, str, dict[str, Any]], None],
    query_function: Query | None,
    options: dict[str, Any],
) -> Any:
    location = get_caller_source_code_location(stacklevel=2)

    def decorate(query: Query) -> None:
        if not callable(query):
            raise TypeError(f"decorate a function, and write name={query!r} for a name")
        expected = as_expected(query)
        with _located(location):
            define(expected, options.get("name") or expected.query.__name__, options)

    return decorate if query_function is None else decorate(query_function)


def _define_table(expected: ExpectedQuery, name: str, options: dict[str, Any]) -> None:
    def read(source: str) -> DataFrame:
        return SparkSession.active().readStream.table(source)

    if needs_all_rows(expected.expectations):
        quarantines = [each.into for each in expected.expectations if each.into]
        check_written_from(with_suffix(name, JUDGED), name, quarantines)
    else:
        check_written_directly(name, with_suffix(name, JUDGED))
    _define_stored(pipelines.table, read, expected, name, options)


def _define_materialized_view(expected: ExpectedQuery, name: str, options: dict[str, Any]) -> None:
    def read(source: str) -> DataFrame:
        return SparkSession.active().read.table(source)

    _define_stored(pipelines.materialized_view, read, expected, name, options)


def _define_temporary_view(expected: ExpectedQuery, name: str, options: dict[str, Any]) -> None:
    query = expected.query
    if expectations := expected.expectations:
        if any(expectation.into for expectation in expectations):
            raise ValueError(f"{name} is a view: its rows cannot be quarantined, only a table's")

        def query() -> DataFrame:
            return kept(with_checks(expected.query(), expectations, name))

    pipelines.temporary_view(**{**options, "name": name})(query)


def _define_stored(
    define: Callable[..., Any],
    reader: Callable[[str], DataFrame],
    expected: ExpectedQuery,
    name: str,
    options: dict[str, Any],
) -> None:
    expectations = expected.expectations
    if not expectations:
        define(**{**options, "name": name})(expected.query)
        return
    if not needs_all_rows(expectations):
        define(**{**options, "name": name})(lambda: checked(expected.query(), expectations, name))
        _define_counts(name, expectations)
        return
    all_rows = with_suffix(name, JUDGED)
    # What the options say of the query and its files, but not of the table's columns.
    of_query = _chosen(options, "spark_conf", "format")
    define(name=all_rows, comment=_comment_on_judged(name), **of_query)(
        lambda: with_checks(expected.query(), expectations, name)
    )
    of_table = {key: value for key, value in options.items() if key != "spark_conf"}
    define(**{**of_table, "name": name})(lambda: kept(reader(all_rows)))
    define_as_files = partial(define, **_chosen(options, "format"))
    _define_quarantines(define_as_files, reader, name, expectations, all_rows)
    _define_counts(name, expectations, all_rows)


def _define_quarantines(
    define: Callable[..., Any],
    reader: Callable[[str], DataFrame],
    name: str,
    expectations: tuple[Expectation, ...],
    all_rows: str,
) -> None:
    for expectation in expectations:
        if expectation.into:
            rows = partial(_quarantined_rows, reader, all_rows, expectation)
            comment = f"The rows of {name} that are refused, with the verdict on each"
            define(name=expectation.into, comment=comment)(rows)


def _quarantined_rows(
    reader: Callable[[str], DataFrame], all_rows: str, expectation: Expectation
) -> DataFrame:
    return quarantined(reader(all_rows), expectation)


def create_streaming_table(
    name: str,
    *,
    expect_all: Mapping[str, Constraint] | None = None,
    expect_all_or_drop: Mapping[str, Constraint] | None = None,
    expect_all_or_fail: Mapping[str, Constraint] | None = None,
    **options: Any,
) -> None:
    """Define a streaming table that `append_flow` fills, with expectations of its rows.

    Args:
        name: Its name, which may have a catalog and a schema.
        expect_all: Constraints by description, as of the decorators. Rows that fail one are kept
            and counted.
        expect_all_or_drop: Rows that fail one are left out and counted.
        expect_all_or_fail: A row that fails one fails the update.
        options: Those of `pyspark.pipelines.create_streaming_table`.

    Raises:
        TypeError: A description or an expression is not a string, or is empty.
        ConfigurationError: A condition or a policy cannot be used.
        ValueError: Two expectations have the same description; or a flow to this table is defined
            before the table, so that its rows would not be judged; or earlier updates wrote it in
            another way.
    """
    location = get_caller_source_code_location(stacklevel=1)
    expectations = tuple(
        expectation_of(description, constraint, action)
        for constraints, action in (
            (expect_all, Action.KEEP),
            (expect_all_or_drop, Action.DROP),
            (expect_all_or_fail, Action.FAIL),
        )
        for description, constraint in (constraints or {}).items()
    )
    expectations = ExpectedQuery(_no_query).expecting(expectations).expectations
    targets = _targets()
    if expectations and any(may_be_same(name, other) for other in targets):
        raise ValueError(f"define {name!r} with create_streaming_table before the flows to it")
    all_rows = with_suffix(name, JUDGED)
    with _located(location):
        if not needs_all_rows(expectations):
            check_written_directly(name, all_rows)
            pipelines.create_streaming_table(name, **options)
            targets[name] = _Target(name, expectations)
            if expectations:
                _define_counts(name, expectations)
            return
        check_written_from(all_rows, name, [])
        of_files = _chosen(options, "format")
        pipelines.create_streaming_table(all_rows, comment=_comment_on_judged(name), **of_files)
        targets[name] = _Target(all_rows, expectations)

        def rows() -> DataFrame:
            return kept(SparkSession.active().readStream.table(all_rows))

        pipelines.create_streaming_table(name, **options)
        # Not the table's name, which a flow of the user may have.
        pipelines.append_flow(target=name, name=with_suffix(name, KEPT))(rows)
        _define_counts(name, expectations, all_rows)


def create_auto_cdc_flow(target: str, *arguments: Any, **options: Any) -> None:
    """Define a flow of changes, as `pyspark.pipelines.create_auto_cdc_flow` does.

    Args:
        target: The name of a streaming table, without expectations that leave rows out or fail.
        arguments: Those that `pyspark.pipelines.create_auto_cdc_flow` takes by position.
        options: Those that it takes by name.

    Raises:
        ValueError: The table has such expectations: Spark applies changes itself, unjudged.
    """
    if any(
        expectation.action is not Action.KEEP for expectation in _target_of(target).expectations
    ):
        raise ValueError(
            f"rows of create_auto_cdc_flow cannot be judged: {target!r} has expectations that "
            "leave rows out or fail; give them to the table that is the source"
        )
    with _located(get_caller_source_code_location(stacklevel=1)):
        pipelines.create_auto_cdc_flow(target, *arguments, **options)


def append_flow(*, target: str, name: str | None = None, **options: Any) -> Any:
    """Define a flow into a streaming table, whose expectations its rows should meet.

    Args:
        target: The name of a table of `create_streaming_table`.
        name: The flow; by default the name of the function.
        options: Those of `pyspark.pipelines.append_flow`.

    Returns:
        A decorator for the function that returns the streaming frame.
    """
    location = get_caller_source_code_location(stacklevel=1)

    def decorate(query: Query) -> None:
        if isinstance(query, ExpectedQuery):
            query()  # which says what to write instead
        into = _target_of(target)
        expectations = into.expectations

        def rows() -> DataFrame:
            if into.table != target:
                return with_checks(query(), expectations, target)
            return checked(query(), expectations, target)

        flow = name or query.__name__
        with _located(location):
            pipelines.append_flow(target=into.table, name=flow, **options)(rows)

    return decorate


class _Target(NamedTuple):
    """The table that the flows to a table write, and the expectations of their rows."""

    table: str
    expectations: tuple[Expectation, ...] = ()


_TARGETS: Final[WeakKeyDictionary[GraphElementRegistry, dict[str, _Target]]] = WeakKeyDictionary()
"""The targets of flows by name, for each pipeline."""


def _target_of(name: str) -> _Target:
    """Return the target of flows to a table.

    Raises:
        ValueError: It may be a table with expectations whose name is written in another way.
    """
    targets = _targets()
    if name not in targets:
        for other, target in targets.items():
            if target.expectations and may_be_same(name, other):
                raise ValueError(f"write {name!r} as in create_streaming_table({other!r}, ...)")
    return targets.setdefault(name, _Target(name))


def _targets() -> dict[str, _Target]:
    return _TARGETS.setdefault(get_active_graph_element_registry(), {})


def _no_query() -> DataFrame:
    raise AssertionError("flows fill this table")


def _define_counts(
    name: str, expectations: tuple[Expectation, ...], all_rows: str | None = None
) -> None:
    def counts() -> DataFrame:
        rows = SparkSession.active().read.table(all_rows or name)
        return counted(rows, expectations) if all_rows else counted_in_table(rows, expectations)

    pipelines.materialized_view(
        name=with_suffix(name, COUNTS), comment=f"How many rows of {name} meet its expectations"
    )(counts)


def _chosen(options: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: options[key] for key in keys if key in options}


def _comment_on_judged(name: str) -> str:
    return f"Each row of the query of {name}, with the expectations that judged it"


def with_suffix(name: str, suffix: str) -> str:
    """Return the name of a dataset with a suffix, within the backquotes of its last part."""
    return f"{name[:-1]}{suffix}`" if name.endswith("`") else f"{name}{suffix}"


# Where datasets are defined


@contextmanager
def _located(location: SourceCodeLocation) -> Iterator[None]:
    """Let the datasets and flows of a block have a place in the pipeline's source code.

    Spark takes the caller of its decorators for it, and errors name it.
    """
    registry = get_active_graph_element_registry()
    with graph_element_registration_context(_Located(registry, location)):
        yield


class _Located(GraphElementRegistry):
    """A registry that corrects the place of what is defined."""

    def __init__(self, registry: GraphElementRegistry, location: SourceCodeLocation) -> None:
        self._registry = registry
        self._location = location

    def register_output(self, output: Output) -> None:
        self._registry.register_output(replace(output, source_code_location=self._location))

    def register_flow(self, flow: Flow) -> None:
        self._registry.register_flow(replace(flow, source_code_location=self._location))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        self._registry.register_auto_cdc_flow(replace(flow, source_code_location=self._location))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self._registry.register_sql(sql_text, file_path)
