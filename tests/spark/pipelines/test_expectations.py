"""Expectations of query functions, before a pipeline runs."""

import pytest
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

from penstock import pipelines as dp
from penstock.configuration import ConfigurationError
from penstock.spark import load_plan, plan
from penstock.spark.pipelines.expectations import Action, Expectation, as_expected


class Definitions(GraphElementRegistry):
    """What a project defines."""

    def __init__(self):
        self.outputs, self.flows = {}, {}

    def register_output(self, output):
        self.outputs[output.name] = output

    def register_flow(self, flow):
        self.flows[flow.name] = flow

    def register_auto_cdc_flow(self, flow):
        self.flows[flow.name] = flow

    def register_sql(self, sql_text, file_path):
        raise AssertionError(sql_text)


@pytest.fixture
def defined():
    definitions = Definitions()
    with graph_element_registration_context(definitions):
        yield definitions


def rows():
    raise AssertionError("a query function is not called while a pipeline is defined")


def test_every_name_of_sparks_module_is_here():
    from pyspark import pipelines

    assert set(pipelines.__all__) < set(dp.__all__)
    assert all(getattr(dp, name) is not None for name in dp.__all__)
    assert dp.create_sink is pipelines.create_sink
    with pytest.raises(AttributeError, match="'views'"):
        dp.views  # noqa: B018


def test_expectations_are_in_the_order_in_which_they_are_written():
    query = dp.expect("a", "x")(
        dp.expect_or_drop("b", "y")(dp.expect_all_or_fail({"c": "z"})(rows))
    )
    assert as_expected(query).expectations == (
        Expectation("a", "x", Action.KEEP),
        Expectation("b", "y", Action.DROP),
        Expectation("c", "z", Action.FAIL),
    )
    assert query.__name__ == "rows"


@pytest.mark.parametrize("constraints", [{"": "x"}, {"a": " "}, {"a": None}, {1: "x"}])
def test_descriptions_and_constraints_are_not_empty(constraints):
    with pytest.raises(TypeError, match=r"description is a string|has no constraint"):
        dp.expect_all(constraints)


def test_rules_that_cannot_be_used_are_refused_where_they_are_written():
    with pytest.raises(ConfigurationError, match="its condition is not valid"):
        dp.expect("a", dp.cel("value.amount >"))


@pytest.mark.parametrize(
    "constraint", [plan, load_plan, 5, ["x"]], ids=lambda it: type(it).__name__
)
def test_a_constraint_is_sql_or_a_rule_of_the_wire(constraint):
    with pytest.raises(TypeError, match=r"'a' is SQL, cel\(\.\.\.\), a plan or a policy, not"):
        dp.expect("a", constraint)


@pytest.mark.parametrize("expectations", [None, ["x"], rows])
def test_several_expectations_are_constraints_by_description(expectations):
    with pytest.raises(TypeError, match="constraints by description"):
        dp.expect_all(expectations)


def test_a_decorator_of_a_dataset_takes_a_function(defined):
    with pytest.raises(TypeError, match="write name='orders' for a name"):
        dp.table("orders")


def test_another_decorator_does_not_take_rows_unjudged(defined):
    from pyspark import pipelines

    query = dp.expect_or_drop("a", "x")(rows)
    pipelines.table(query)
    with pytest.raises(TypeError, match=r"need @table.* of penstock.pipelines"):
        defined.flows["rows"].func()
    with pytest.raises(TypeError, match="give them to create_streaming_table"):
        dp.append_flow(target="other")(query)


@pytest.mark.parametrize("target", ["orders", "SALES.Orders", "c.`sales`.orders"])
def test_a_target_is_written_as_its_table(defined, target):
    dp.create_streaming_table("sales.orders", expect_all_or_drop={"a": "x"})
    with pytest.raises(ValueError, match=r"as in create_streaming_table\('sales.orders'"):
        dp.append_flow(target=target)(rows)
    dp.append_flow(target="old_orders")(rows)


def test_changes_are_not_judged(defined):
    changes = {"source": "changes", "keys": ["id"], "sequence_by": "time"}
    dp.create_streaming_table("kept", expect_all={"a": "x"})
    dp.create_auto_cdc_flow("kept", **changes)
    dp.create_streaming_table("checked", expect_all_or_fail={"a": "x"})
    with pytest.raises(ValueError, match="cannot be judged: 'checked'"):
        dp.create_auto_cdc_flow("checked", **changes)


def test_a_condition_of_the_wire_may_have_any_description():
    query = dp.expect("a valid amount, in EUR", dp.cel("value.amount > 0"))(rows)
    [expectation] = query.expectations
    assert expectation.description == "a valid amount, in EUR"
    assert expectation.constraint.rules == (("rules", "a_valid_amount__in_EUR"),)


def test_a_plan_quarantines_rows_of_tables_only(defined):
    with pytest.raises(TypeError, match="takes a plan"):
        dp.expect_or_quarantine("amount > 0", into="bad")
    with pytest.raises(TypeError, match="into is the name of a table"):
        dp.expect_or_quarantine(dp.cel("true"), into="")
    quarantining = dp.expect_or_quarantine(dp.cel("value.amount > 0"), into="db.bad")
    with pytest.raises(ValueError, match="rows is a view"):
        dp.temporary_view(quarantining(rows))
    dp.table(format="parquet")(quarantining(rows))
    assert set(defined.outputs) == {"rows", "rows_judged", "rows_expectations", "db.bad"}
    assert defined.outputs["db.bad"].format == "parquet"


def test_a_description_is_a_name():
    with pytest.raises(ValueError, match="two expectations of 'rows' are called 'a'"):
        dp.expect_or_drop("a", "y")(dp.expect("a", "x")(rows))


def test_expectations_stand_below_the_decorator_of_a_dataset(defined):
    with pytest.raises(TypeError, match="write expectations below @table"):
        dp.expect("a", "x")(dp.table(rows))


def test_a_dataset_without_expectations_is_as_sparks(defined):
    dp.table(rows)
    assert list(defined.outputs) == ["rows"]
    assert defined.flows["rows"].func is rows


def test_a_table_that_keeps_all_rows_has_counts(defined):
    dp.materialized_view(name="db.orders", comment="c")(dp.expect("a", "x")(rows))
    assert list(defined.outputs) == ["db.orders", "db.orders_expectations"]
    assert defined.outputs["db.orders"].comment == "c"


def test_a_table_that_drops_rows_reads_each_row_judged_once(defined):
    dp.table(
        name="db.`the orders`", partition_cols=["day"], spark_conf={"k": "v"}, format="parquet"
    )(dp.expect_or_drop("a", "x")(rows))
    orders, judged = defined.outputs["db.`the orders`"], defined.outputs["db.`the orders_judged`"]
    assert "db.`the orders_expectations`" in defined.outputs
    assert (orders.partition_cols, judged.partition_cols) == (["day"], None)
    assert (orders.format, judged.format) == ("parquet", "parquet")
    assert defined.flows["db.`the orders_judged`"].spark_conf == {"k": "v"}
    assert defined.flows["db.`the orders`"].spark_conf == {}


def test_errors_name_the_line_of_the_project(defined):
    @dp.table
    @dp.expect_or_drop("a", "x")
    def orders():
        pass

    dp.create_streaming_table("merged", expect_all={"a": "x"})
    dp.append_flow(target="merged")(rows)
    places = {
        element.source_code_location
        for element in (*defined.outputs.values(), *defined.flows.values())
    }
    assert {place.filename for place in places} == {__file__}
    lines = {
        defined.outputs[name].source_code_location.line_number for name in ("orders", "merged")
    }
    assert len(lines) == 2


def test_flows_write_to_where_rows_are_judged(defined):
    dp.create_streaming_table("merged", expect_all_or_drop={"a": "x"}, format="parquet")
    dp.append_flow(target="merged")(rows)
    dp.append_flow(target="other", name="elsewhere")(rows)
    assert set(defined.outputs) == {"merged", "merged_judged", "merged_expectations"}
    targets = {name: flow.target for name, flow in defined.flows.items()}
    assert targets == {
        "merged_kept": "merged",
        "merged_expectations": "merged_expectations",
        "rows": "merged_judged",
        "elsewhere": "other",
    }


def test_a_flow_before_its_table_is_not_judged(defined):
    dp.append_flow(target="merged")(rows)
    with pytest.raises(ValueError, match="before the flows to it"):
        dp.create_streaming_table("merged", expect_all_or_drop={"a": "x"})
