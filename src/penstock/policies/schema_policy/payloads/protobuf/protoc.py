"""Compiles texts of .proto files with grpcio-tools' protoc in a separate process.

protoc is C++ that reads texts from a registry: it runs in a separate process, so that a text can
end only that process. It gets an isolated Python, an empty environment, a temporary folder that is
not its working directory, limits, no plugin, and one file name on its command line. Names of
references become only names of files, after they were checked; protoc opens no
import that leaves its folders.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc_tools

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.protobuf import buf_validate
from penstock.policies.schema_policy.payloads.protobuf.locked_folder import locked_folder
from penstock.policies.schema_policy.payloads.protobuf.serialized import (
    descriptor_in,
    named_in_set,
)

if TYPE_CHECKING:
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

MAX_TEXT_BYTES: Final = 8 * 2**20
MAX_REFERENCES: Final = 1000
_MAX_NAME: Final = 500
_MAX_NAME_PART: Final = 200
_MAX_MESSAGE: Final = 500
_MEMORY_BYTES: Final = 2 * 2**30
_CPU_SECONDS: Final = 7
"""Less than `policy.preparation.timeout.ms` by default: a schema at this limit gets an error, and
the worker continues. 4 MB of fields take a third of it."""
_WALL_SECONDS: Final = 60
"""Ends a process that hangs; its work is bounded by `_CPU_SECONDS`."""
_FILE_BYTES: Final = 16 * 2**20
_OURS: Final = "google/protobuf/"
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\\:]+")
_TOO_MUCH: Final = {
    signal.SIGXCPU: f"takes more than {_CPU_SECONDS} seconds to compile",
    signal.SIGXFSZ: "becomes larger than 16 MiB when compiled",
    signal.SIGABRT: "takes more than 2 GiB of memory to compile, or is more than protoc can take",
}


def compile_files(source: SchemaSource) -> tuple[str, bytes]:
    """Compile a schema with its references, each a text or a serialized descriptor in base64.

    `google/protobuf/*.proto` are protoc's, regardless of the references. `confluent/*.proto` and
    `google/type/*.proto`, which Confluent's serializers never send as references, are ours unless
    a reference has the name; so is `buf/validate/validate.proto` where protovalidate is installed.

    Returns:
        The name that the schema has as a file, and a serialized `FileDescriptorSet` of it and its
        imports, with imports first.

    Raises:
        InvalidSchemaError: It is too large, has a reference whose name is not that of a file, or
            protoc does not take it; the text is protoc's first complaint.
        OSError: The process could not be run to its end, which is not the schema's fault.
    """
    _check_size(source)
    name = _free_name(source)
    with locked_folder("penstock-proto-") as folder:
        texts, descriptors, output, complaints = (
            folder / part for part in ("in", "descriptors", "out", "err")
        )
        texts.mkdir()
        described = b""
        for file_name, text in (*source.references.items(), (name, source.text)):
            if file_name.startswith(_OURS):
                continue
            descriptor = descriptor_in(text)
            if descriptor is None:
                _write(texts, file_name, text)
            else:
                described += named_in_set(descriptor, file_name)
        options = buf_validate.serialized() if buf_validate.is_missing(source) else None
        if options is not None:
            described += named_in_set(options, buf_validate.NAME)
        descriptors.write_bytes(described)
        code = _run(texts, descriptors, output, complaints, name)
        if code == 0:
            return name, output.read_bytes()
        with complaints.open("rb") as file:
            complaint = file.read(64 * 1024).decode(errors="replace")
    complaint = complaint.replace(f"{texts}/", "").replace(f"{descriptors}: ", "its base64: ")
    raise InvalidSchemaError(_complaint(code, complaint, name))


def _check_size(source: SchemaSource) -> None:
    if len(source.references) > MAX_REFERENCES:
        raise InvalidSchemaError(f"has more than {MAX_REFERENCES} references")
    size = 0
    for text in (source.text, *source.references.values()):
        size += len(text)
        if size > MAX_TEXT_BYTES:
            raise InvalidSchemaError("is larger than 8 MiB with its references")


def _free_name(source: SchemaSource) -> str:
    name = "schema.proto"
    while name in source.references:
        name = "_" + name
    return name


def _write(folder: Path, name: str, text: str) -> None:
    parts = name.split("/")
    if (
        len(name.encode(errors="replace")) > _MAX_NAME
        or not _NAME.fullmatch(name)
        or any(
            part in {"", ".", ".."} or len(part.encode(errors="replace")) > _MAX_NAME_PART
            for part in parts
        )
    ):
        raise InvalidSchemaError("has a reference whose name is not one of a file to import")
    path = folder.joinpath(*parts)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidSchemaError("is not UTF-8") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except (FileExistsError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError):
        raise InvalidSchemaError("has a reference whose name cannot be one of a file") from None


def _run(texts: Path, descriptors: Path, output: Path, complaints: Path, name: str) -> int:
    here = files(__package__)
    script = here.joinpath("limited_protoc.py").read_text("utf-8")
    with (
        as_file(here.joinpath("well_known")) as own_folder,
        as_file(files(grpc_tools).joinpath("_proto")) as protocs,
        complaints.open("wb") as errors,
    ):
        command = [
            *(sys.executable, "-I", "-c", script),
            *(str(Path(grpc_tools.__file__).resolve().parents[1]),),
            *(str(_MEMORY_BYTES), str(_CPU_SECONDS), str(_FILE_BYTES)),
            *(f"-I{folder}" for folder in (texts, own_folder, protocs)),
            f"--descriptor_set_in={descriptors}",  # files that are in no folder
            f"--descriptor_set_out={output}",
            "--include_imports",
            name,
        ]
        try:
            return subprocess.run(  # noqa: PLW1510 - the code is looked at
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={},
                cwd="/",
                timeout=_WALL_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            raise TimeoutError("protoc does not end") from None


_WARNING: Final = re.compile(r": warning: |^WARNING: |^[IW]\d{4} ")
"""Protoc's own, and those of the library that writes its log."""


def _complaint(code: int, complaint: str, name: str) -> str:
    if code < 0:
        number = -code
        if number in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT}:
            raise OSError(f"protoc was ended by signal {number}")
        return _TOO_MUCH.get(signal.Signals(number), f"ends protoc by signal {number}")
    if "MemoryError" in complaint or "bad_alloc" in complaint:
        return _TOO_MUCH[signal.SIGABRT]
    if "Traceback" in complaint:
        raise OSError("protoc could not be started")
    if "File too large" in complaint:
        return _TOO_MUCH[signal.SIGXFSZ]
    lines = [line for line in complaint.splitlines() if line.strip() and not _WARNING.search(line)]
    first = lines[0] if lines else f"protoc ended with code {code}"
    # What protoc quotes of a text may hold anything.
    shown = "".join(c if c.isprintable() else "?" for c in first)[:_MAX_MESSAGE]
    return f"is not valid: {shown.removeprefix(f'{name}:')}"
