"""Judge many pairs of schemas and texts by both implementations: `make schemas`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.policies.json_schema.oracle import compare
from tests.policies.json_schema.pairs import DRAFTS


def main() -> int:
    """Run as many pairs a draft as in the first argument; the second is the seed."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for draft in DRAFTS:
            found = compare(draft, pairs, Path(folder), seed=seed)
            different += len(found.differences)
            print(
                f"draft {draft}, seed {seed}: {found.pairs} pairs, {found.fits} fit, "
                f"{len(found.differences)} differences, {found.other_reasons} with another reason; "
                f"{found.refused} schemas refused",
                flush=True,
            )
            for difference in found.differences[:5]:
                print(
                    f"  {json.dumps(difference.schema)} {difference.text!r}: {difference.native}, {difference.library}"
                )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
