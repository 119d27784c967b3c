"""What `make sbom` has written: valid CycloneDX, and every package that the image installs."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
SBOM = ROOT / "dist" / "penstock.cdx.json"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
import json
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
error = JsonStrictValidator(version).validate_str(text)
sys.exit(None if error is None else repr(error))
"""
pytestmark = [pytest.mark.sbom, pytest.mark.system]


def plain(name: str) -> str:
    """Return the name of a package as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    files = [
        ROOT / "requirements" / f"{name}.txt" for name in ("runtime", "schemas", "json-schema")
    ]
    text = "".join(file.read_text() for file in files)
    return {
        plain(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^ ]+)", text, re.MULTILINE)
    }


def test_it_fits_the_schema_of_cyclonedx():
    done = subprocess.run(
        [os.environ["PENSTOCK_SBOM_TOOLS"], "-c", VALIDATE, str(SBOM)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_it_has_exactly_the_packages_of_the_image():
    document = json.loads(SBOM.read_text())
    assert document["bomFormat"] == "CycloneDX"
    packages = [
        component
        for component in document["components"]
        if "pkg:cargo/" not in component.get("purl", "")
    ]
    found = {plain(component["name"]): component["version"] for component in packages}
    found.pop("penstock-kafka", None)
    assert found == pinned()
    described = document["metadata"]["component"]
    assert (described["name"], described["type"]) == ("penstock-kafka", "application")
    assert described.get("version", penstock.__version__) == penstock.__version__


def test_packages_have_names_and_licences():
    components = json.loads(SBOM.read_text())["components"]
    others = [component for component in components if component["name"] != "penstock-kafka"]
    assert all(other["purl"].startswith(("pkg:pypi/", "pkg:cargo/")) for other in others)
    # The metadata of protobuf do not say.
    assert {other["name"] for other in others if not other.get("licenses")} <= {"protobuf"}


def test_it_has_the_crates_that_are_linked_with_their_sums():
    """Not those that only run while it is built."""
    components = json.loads(SBOM.read_text())["components"]
    crates = {
        f"{crate['name']}-{crate['version']}.crate": crate["hashes"][0]["content"]
        for crate in components
        if crate.get("purl", "").startswith("pkg:cargo/")
    }
    lines = (line.split() for line in (ROOT / "native" / "crates.sha256").read_text().splitlines())
    sums = {name: checksum for checksum, name in lines}
    assert crates.items() <= sums.items()
    names = {crate.rsplit("-", 1)[0] for crate in crates}
    assert {"rustls", "ring", "pyo3", "zstd-safe"} <= names
    assert names.isdisjoint({"pyo3-macros", "syn", "cc", "loom"})


def test_it_names_no_place_of_this_machine():
    assert str(ROOT) not in SBOM.read_text()
