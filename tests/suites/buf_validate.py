"""Runs protovalidate 1.2 for Python: prints, for each case, why it refuses a message, or "".

A program of a separate environment, without Penstock. This version has the same rules on
another evaluation of CEL, in Python. Its arguments: the descriptors, and the cases.
"""

import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def main() -> None:
    """Print all answers."""
    files = descriptor_pb2.FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes())
    sys.path.insert(0, str(Path(sys.argv[1]).parent))  # has buf/validate/validate_pb2.py
    from protovalidate import Validator

    pool = descriptor_pool.Default()
    for file in files.file:
        try:
            pool.FindFileByName(file.name)
        except KeyError:
            pool.AddSerializedFile(file.SerializeToString())
    validator = Validator()
    classes: dict[str, Any] = {}
    answers = []
    for name, data in json.loads(Path(sys.argv[2]).read_text()):
        if name not in classes:
            classes[name] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        message = classes[name].FromString(bytes.fromhex(data))
        try:
            found = validator.collect_violations(message)
            answers.append(
                ", ".join(violation.proto.rule_id for violation in found) + " broken"
                if found
                else ""
            )
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}"[:200])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
