from penstock.policies.schema_policy.payloads.protobuf.reach import SHALLOW, Reach, reach_of
from tests.policies.schema_policy.payloads.protobuf.files import EDITION, OLD, SHOP, pool_of


def reach(text: str, name: str) -> Reach:
    return reach_of(pool_of(text).FindMessageTypeByName(name))


def test_a_plain_message():
    assert reach(SHOP, "shop.Order") == Reach(required=False, shallow=True)


def test_required_fields_are_found_in_extensions_too():
    text = """syntax = "proto2";
        message M { extensions 1 to 9; } message R { required int32 a = 1; }
        extend M { optional R r = 1; }"""
    assert reach(text, "M").required
    assert reach(OLD, "old.Whole").required
    assert reach(EDITION, "modern.Item").required


def test_a_recursive_message_is_not_shallow():
    assert not reach(SHOP, "shop.Tree").shallow
    assert not reach(SHOP, "shop.Event").shallow  # google.protobuf.Struct


def test_depth_is_counted():
    def chain(levels):
        return 'syntax = "proto3"; message M0 {}' + "".join(
            f"message M{i} {{ M{i - 1} a = 1; }}" for i in range(1, levels)
        )

    assert reach(chain(SHALLOW), f"M{SHALLOW - 1}").shallow
    assert not reach(chain(SHALLOW + 1), f"M{SHALLOW}").shallow
