"""Write the verdicts of datacontract-cli on `records.py`: `python run_datacontract_cli.py > verdicts.json`.

In a separate environment: `pip install 'datacontract-cli[duckdb]==1.2.8'`.

For each record: the names of the checks that fail for a data set of this record alone, which is in
a file of JSON. The two that need more records are left out.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

from datacontract.data_contract import DataContract
from open_data_contract_standard.model import OpenDataContractStandard, Server

from records import GOOD, records

HERE = Path(__file__).parent


def verdict(contract: str, name: str, record: dict, folder: Path) -> list[str]:
    """Return the names of the checks that fail."""
    path = folder / "record.json"
    path.write_text(json.dumps(record) + "\n")
    model = OpenDataContractStandard.from_file(str(HERE / "contracts" / contract))
    model.servers = [
        Server(server="local", type="local", path=str(path), format="json", delimiter="new_line")
    ]
    model.schema_ = [entry for entry in model.schema_ if entry.name == name]
    model.slaProperties = None
    for check in model.schema_:
        check.quality = None
        check.physicalName = check.name
        for prop in check.properties:
            prop.quality = [rule for rule in prop.quality or () if rule.metric in WIRE] or None
    run = DataContract(data_contract=model, server="local").test()
    return sorted(
        {
            f"{check.type}: {check.name}"
            for check in run.checks
            if check.result in ("failed", "error")
        }
    )


WIRE = {"nullValues", "missingValues", "invalidValues"}


def main() -> None:
    """Judge all records of all contracts."""
    logging.disable(logging.CRITICAL)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for (contract, name), good in GOOD.items():
            found[f"{contract} {name}"] = [
                verdict(contract, name, record, Path(folder)) for record in records(good)
            ]
    rows = (
        f" {json.dumps(name)}: [\n"
        + ",\n".join(f"  {json.dumps(entry)}" for entry in each)
        + "\n ]"
        for name, each in found.items()
    )
    sys.stdout.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
