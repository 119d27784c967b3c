"""Rules of buf.validate against an older protovalidate, which evaluates CEL by another library.

Run by `make suites`; needs Go, which fetches the schemas.
"""

import json
import subprocess
from collections import defaultdict

import pytest
from grpc_tools import protoc

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.compile import schema_of
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.rules.rules import compile_rules
from tests.suites.buf_validate_cases import cases, compiled, file_of, folder
from tests.suites.environment import python
from tests.suites.expected import compare, expected

pytestmark = [pytest.mark.suites, pytest.mark.timeout(1800)]

_EACH = 12


def _ours(type_name, payloads):
    """Return what Penstock says of messages of one type."""
    schema = schema_of(file_of(type_name), compiled(), type_name, allow_unknown_fields=True)
    source = SchemaSource("PROTOBUF", "", {}, type_name)
    try:
        rules = compile_rules(RegisteredSchema("PROTOBUF", ""), schema, source)
    except InvalidSchemaError as error:
        return [f"unusable: {error}"] * len(payloads)
    answers = []
    for payload in payloads:
        try:
            answers.append(rules.objection(schema.decode(payload)) or "")
        except InvalidSchemaError as error:
            answers.append(f"unusable: {error}")
    return answers


def test_verdicts_equal_another_implementation_of_protovalidate(tmp_path, suites_seed):
    drawn = list(cases(suites_seed, _EACH))
    (tmp_path / "set.binpb").write_bytes(compiled())
    (tmp_path / "cases.json").write_text(
        json.dumps([(case.type_name, case.data.hex()) for case in drawn])
    )
    made = ["protoc", f"-I{folder() / 'protovalidate'}", f"-I{_google()}", f"--python_out={tmp_path}",
            "buf/validate/validate.proto"]  # fmt: skip
    assert protoc.main(made) == 0
    script = __file__.replace("test_buf_validate", "buf_validate")
    done = subprocess.run(
        [python(), script, tmp_path / "set.binpb", tmp_path / "cases.json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    by_type = defaultdict(list)
    for case, by_library in zip(drawn, json.loads(done.stdout), strict=True):
        by_type[case.type_name].append((case.data, by_library))
    different = {}
    for name, answers in by_type.items():
        by_penstock = _ours(name, [data for data, _ in answers])
        for number, (objection, (data, by_library)) in enumerate(
            zip(by_penstock, answers, strict=True)
        ):
            if bool(objection) != bool(by_library):
                text = f"{data.hex()}: Penstock: {objection or 'passes'}; theirs: {by_library or 'passes'}"
                different[f"{name.removeprefix('buf.validate.conformance.cases.')}/{number}"] = text
    refused = sum(bool(by_library) for answers in by_type.values() for _, by_library in answers)
    print(f"buf.validate, seed {suites_seed}: {len(drawn) - len(different)} of {len(drawn)}, "
          f"{refused} of them refused")  # fmt: skip
    assert len(by_type) > 500
    unknown, _ = compare(different, expected("buf-validate"))
    assert unknown == [], "\n".join(unknown)


def _google():
    import grpc_tools

    return f"{grpc_tools.__path__[0]}/_proto"
