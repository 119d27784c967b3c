"""protoc in a separate process, and hostile texts."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.type import (
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    expr_pb2,
    fraction_pb2,
    latlng_pb2,
    money_pb2,
    month_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf import protoc
from penstock.policies.schema_policy.payloads.protobuf.protoc import compile_files

pytestmark = pytest.mark.system
PROTO3 = 'syntax = "proto3"; '


def compiled(text):
    name, data = compile_files(SchemaSource("PROTOBUF", text))
    return name, {file.name: file for file in FileDescriptorSet.FromString(data).file}


def refused(text, references=None):
    with pytest.raises(InvalidSchemaError) as raised:
        compile_files(SchemaSource("PROTOBUF", text, references or {}))
    reason = str(raised.value)
    assert len(reason) < 700
    assert "penstock-proto-" not in reason
    return reason


def bare(file):
    file.ClearField("options")
    messages = list(file.message_type)
    for message in messages:
        messages.extend(message.nested_type)
    for field in (*file.extension, *(field for message in messages for field in message.field)):
        field.ClearField("json_name")
    return file


def test_a_file_with_its_imports():
    references = {
        "acme/b.proto": PROTO3 + 'import "c d.proto"; message B { C c = 1; }',
        "c d.proto": PROTO3 + "message C {}",
        "schema.proto": PROTO3 + "message Taken {}",
    }
    text = (
        PROTO3 + 'import "acme/b.proto"; import "schema.proto"; message A { B b = 1; Taken t = 2; }'
    )
    name, data = compile_files(SchemaSource("PROTOBUF", text, references))
    names = [file.name for file in FileDescriptorSet.FromString(data).file]
    assert name == "_schema.proto"
    assert names == ["c d.proto", "acme/b.proto", "schema.proto", "_schema.proto"]


def test_files_that_confluents_clients_never_send_are_those_of_their_packages():
    """The same names, numbers and types; options, which say nothing about bytes, aside."""
    from confluent_kafka.schema_registry.common.protobuf import (
        decimal_pb2,
        legacy_decimal_pb2,
        meta_pb2,
        variant_pb2,
    )
    from google.type import decimal_pb2 as decimal_type_pb2
    from google.type import interval_pb2, localized_text_pb2, phone_number_pb2

    theirs = {
        module.DESCRIPTOR.name: FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for module in (
            *(decimal_pb2, legacy_decimal_pb2, meta_pb2, variant_pb2),
            *(calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, expr_pb2),
            *(fraction_pb2, latlng_pb2, money_pb2, month_pb2, postal_address_pb2, quaternion_pb2),
            *(decimal_type_pb2, interval_pb2, localized_text_pb2, phone_number_pb2, timeofday_pb2),
        )
    }
    ours_folder = Path(protoc.__file__).parent / "well_known"
    assert sorted(theirs) == sorted(
        str(path.relative_to(ours_folder)) for path in ours_folder.rglob("*.proto")
    )
    imports = "".join(f'import "{name}";' for name in theirs)
    _, ours = compiled(PROTO3 + imports)
    for name, file in theirs.items():
        assert bare(ours[name]) == bare(file)


def test_googles_own_files_are_protocs():
    text = (
        PROTO3
        + 'import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp at = 1; }'
    )
    reference = {"google/protobuf/timestamp.proto": PROTO3 + "nonsense"}
    _, data = compile_files(SchemaSource("PROTOBUF", text, reference))
    assert FileDescriptorSet.FromString(data).file[0].message_type[0].name == "Timestamp"
    own = {
        "google/type/date.proto": PROTO3 + "package google.type; message Date { int32 day = 9; }"
    }
    text = PROTO3 + 'import "google/type/date.proto"; message A { google.type.Date at = 1; }'
    _, data = compile_files(SchemaSource("PROTOBUF", text, own))
    assert FileDescriptorSet.FromString(data).file[0].message_type[0].field[0].number == 9


def test_a_cycle_is_reported():
    references = {
        "a.proto": PROTO3 + 'import "b.proto";',
        "b.proto": PROTO3 + 'import "a.proto";',
    }
    assert "recursively imports itself" in refused(PROTO3 + 'import "a.proto";', references)


def test_a_mistake_is_reported_with_its_place():
    assert refused(PROTO3 + "\nmessage A { strin a = 1; }") == (
        'is not valid: 2:13: "strin" is not defined.'
    )
    assert refused(PROTO3 + 'import "missing.proto";').startswith(
        "is not valid: missing.proto: File not found."
    )


@pytest.mark.parametrize(
    "imported",
    ["/etc/passwd", "../secret.proto", "a/../../secret.proto", "./secret.proto", "//etc/passwd"],
)
def test_imports_do_not_leave_the_folder(imported, tmp_path):
    reason = refused(PROTO3 + f'import "{imported}"; message A {{}}')
    assert "root:" not in reason
    assert "not found" in reason or "not allowed" in reason


def test_an_absolute_import_is_not_even_read(tmp_path):
    secret = tmp_path / "secret.proto"
    secret.write_text(PROTO3 + "message Secret {}")
    reason = refused(PROTO3 + f'import "{secret}"; message A {{ Secret s = 1; }}')
    assert "File not found" in reason


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/etc/cron.d/x", "../x.proto", "a/../x.proto", "a//b.proto", "./a.proto"),
        *("a/", "a\\b.proto", "a\nb.proto", "a\0b.proto", "C:x.proto", "x" * 201, "a/" * 300 + "b"),
        "\ud800.proto",
    ],
)
def test_names_that_are_not_those_of_files(name):
    assert refused(PROTO3 + "message A {}", {name: PROTO3}).startswith("has a reference whose name")


def test_names_that_collide():
    assert refused(PROTO3, {"a": PROTO3, "a/b": PROTO3}).startswith("has a reference whose name")
    assert refused(PROTO3, {"a/b": PROTO3, "a": PROTO3}).startswith("has a reference whose name")


def test_names_are_not_arguments_nor_python(tmp_path, monkeypatch):
    """Names that have another meaning for protoc, or Python, are names of files."""
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'w')"
    monkeypatch.setenv("PYTHONSTARTUP", str(marker))
    names = ["--plugin=x", "@args", "-I", "--descriptor_set_in=/etc/passwd", "--version"]
    references = {
        **dict.fromkeys(names, PROTO3 + "message X {}"),
        "grpc_tools/protoc.py": code,
        "grpc_tools/__init__.py": code,
        "resource.py": code,
        "sitecustomize.py": code,
    }
    name, data = compile_files(SchemaSource("PROTOBUF", PROTO3 + "message A {}", references))
    assert [file.name for file in FileDescriptorSet.FromString(data).file] == [name]
    assert not marker.exists()
    text = PROTO3 + 'import "--plugin=x"; message A { X x = 1; }'
    name, data = compile_files(SchemaSource("PROTOBUF", text, references))
    assert len(FileDescriptorSet.FromString(data).file) == 2


MANY = "x{" * 100_000 + "}" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROTO3 + "message A{" * 100_000, id="messages in messages"),
        pytest.param(PROTO3 + "({[<" * 1_000_000, id="brackets"),
        pytest.param(PROTO3 + "message A { string " + "a" * 8_000_000 + " = 1; }", id="long name"),
        pytest.param(PROTO3 + "message A { " + "a = 1; " * 50_000 + "}", id="errors"),
        pytest.param(PROTO3 + "\x1b[2J\x00\x07 \ufeff", id="controls"),
        pytest.param(
            'syntax = "proto2"; import "google/protobuf/descriptor.proto"; '
            "extend google.protobuf.FileOptions { optional X x = 2000; } "
            f"message X {{ optional X x = 1; }} option (x) = {{ {MANY} }};",
            id="options in options",
        ),
    ],
)
def test_hostile_texts_end_no_process_but_their_own(text):
    reason = refused(text)
    assert all(character.isprintable() for character in reason)


def test_a_schema_that_is_too_large_is_not_compiled():
    assert refused(" " * (protoc.MAX_TEXT_BYTES + 1)) == "is larger than 8 MiB with its references"
    half = " " * (protoc.MAX_TEXT_BYTES // 2)
    assert "larger" in refused(half, {"a": half, "b": " "})
    many = {f"{i}.proto": PROTO3 for i in range(protoc.MAX_REFERENCES + 1)}
    assert refused(PROTO3, many) == "has more than 1000 references"
    assert refused("\ud800") == "is not UTF-8"


def test_limits_of_the_process(monkeypatch):
    monkeypatch.setattr(protoc, "_FILE_BYTES", 1000)
    fields = "".join(f"int32 field{i} = {i + 1};" for i in range(1000))
    assert refused(PROTO3 + f"message A {{ {fields} }}") == (
        "becomes larger than 16 MiB when compiled"
    )
    monkeypatch.setattr(protoc, "_FILE_BYTES", 16 * 2**20)
    monkeypatch.setattr(protoc, "_CPU_SECONDS", 0)
    assert refused(PROTO3 + "message A { " + "a = 1; " * 1_000_000) == (
        "takes more than 7 seconds to compile"
    )


def test_other_failures_are_no_objection_to_a_schema(monkeypatch):
    monkeypatch.setattr(protoc, "_WALL_SECONDS", 0.001)
    with pytest.raises(TimeoutError):
        compile_files(SchemaSource("PROTOBUF", PROTO3))
    monkeypatch.setattr(protoc, "_WALL_SECONDS", 60)
    monkeypatch.setattr(protoc.sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        compile_files(SchemaSource("PROTOBUF", PROTO3))


def test_protoc_ends_if_its_parent_is_killed(tmp_path):
    os.mkfifo(tmp_path / "a.proto")  # protoc waits for a writer
    script = Path(protoc.__file__).with_name("limited_protoc.py").read_text()
    folder = Path(protoc.grpc_tools.__file__).resolve().parents[1]
    limits = (str(protoc._MEMORY_BYTES), "60", "1000000")
    files = (f"-I{tmp_path}", f"--descriptor_set_out={tmp_path / 'out'}", "a.proto")
    command = [sys.executable, "-I", "-c", script, str(folder), *limits, *files]
    starts = f"import subprocess; print(subprocess.Popen({command!r}).pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", starts], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        child = int(parent.stdout.readline())
        writer = _until(lambda: _opened(tmp_path / "a.proto"))
        parent.kill()
    try:
        _until(lambda: not _runs(child))
    finally:
        os.close(writer)


def _until(found):
    until = time.monotonic() + 60
    while not (result := found()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return result


def _opened(fifo):
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # there is no reader
        return None


def _runs(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


def test_nothing_stays_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compile_files(SchemaSource("PROTOBUF", PROTO3))
    refused(PROTO3 + "nonsense")
    assert list(tmp_path.iterdir()) == []
