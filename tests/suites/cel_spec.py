"""The conformance tests of CEL, which the Go module of its specification has."""

import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from grpc_tools import protoc

from penstock.kafka.artifacts import cache_folder
from tests.conformance.fetched import go_module

_VERSION: Final = "v0.25.3"
_SUM: Final = "h1:A2jO8jwOugrrovveCWfj0KEZOfqiLgAcwjpHPhzIGw0="
_STATUS: Final = """
syntax = "proto3";
package google.rpc;
import "google/protobuf/any.proto";
message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
"""
"""google/rpc/status.proto, which `eval.proto` of another version imports and nothing here uses."""


class Case(NamedTuple):
    """One of the tests.

    Attributes:
        name: Of its file, section and own: `string/size/empty`.
        test: `cel.expr.conformance.test.SimpleTest`.
    """

    name: str
    test: Any


class Specification:
    """The tests and the messages that they use."""

    def __init__(self, folder: Path) -> None:
        self._tests = folder / "tests" / "simple" / "testdata"
        self.pool = _compiled(folder / "proto")

    def message(self, name: str) -> Any:
        """Return the class of a message."""
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def cases(self) -> Iterator[Case]:
        """Yield all tests."""
        seen: Counter[str] = Counter()  # a few names come twice
        of_file = self.message("cel.expr.conformance.test.SimpleTestFile")
        for path in sorted(self._tests.glob("*.textproto")):
            file = of_file()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # escapes that Python has not
                text_format.Parse(path.read_text("utf-8"), file, descriptor_pool=self.pool)
            for section in file.section:
                for test in section.test:
                    name = f"{path.stem}/{section.name}/{test.name}"
                    seen[name] += 1
                    yield Case(name if seen[name] == 1 else f"{name} {seen[name]}", test)


@cache
def specification() -> Specification:
    """Return the specification, fetching it the first time."""
    return Specification(go_module("cel.dev/expr", _VERSION, _SUM, cache_folder() / "suites"))


def _compiled(folder: Path) -> Any:
    made = folder.with_name("compiled.binpb")
    if not made.exists():
        status = folder / "google" / "rpc" / "status.proto"
        status.parent.mkdir(parents=True, exist_ok=True)
        status.write_text(_STATUS, "utf-8")
        files = sorted(str(path.relative_to(folder)) for path in (folder / "cel/expr").rglob("*.proto")
                       if not path.name.endswith("_service.proto"))  # fmt: skip
        arguments = [
            "protoc", f"-I{folder}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--descriptor_set_out={made}", "--include_imports", *files,
        ]  # fmt: skip
        assert protoc.main(arguments) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool
