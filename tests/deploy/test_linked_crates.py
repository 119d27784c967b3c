"""deploy/dist/crates.py: which crates are linked into the extension, and their licences."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "dist" / "crates.py"


@pytest.fixture
def crates() -> ModuleType:
    specification = importlib.util.spec_from_file_location("crates", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def metadata(folder: Path, *packages: tuple[str, str, list[tuple[str, str | None]]]) -> dict:
    """Return what `cargo metadata` prints for packages: a name, a kind of target, dependencies."""
    return {
        "packages": [
            {
                "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "manifest_path": str(folder / name / "Cargo.toml"), "targets": [{"kind": [kind]}],
            }
            for name, kind, _ in packages
        ],
        "resolve": {
            "root": packages[0][0],
            "nodes": [
                {"id": name, "deps": [{"pkg": other, "dep_kinds": [{"kind": kind}]}
                                      for other, kind in dependencies]}
                for name, _, dependencies in packages
            ],
        },
    }  # fmt: skip


def test_crates_that_only_the_build_needs_are_left_out(crates, tmp_path):
    printed = metadata(
        tmp_path,
        ("own", "cdylib", [("library", None), ("macros", None), ("builder", "build"), ("tests", "dev")]),
        ("library", "lib", [("deeper", None)]),
        ("deeper", "lib", [("own", "dev")]),
        ("macros", "proc-macro", [("syntax", None)]),
        ("syntax", "lib", []),
        ("builder", "lib", []),
        ("tests", "lib", []),
    )  # fmt: skip
    assert [crate["name"] for crate in crates.linked(printed)] == ["deeper", "library"]


def test_the_licences_of_a_crate_and_of_code_that_it_brings_along(crates, tmp_path):
    printed = metadata(tmp_path, ("own", "cdylib", [("a", None), ("b", None)]),
                       ("a", "lib", []), ("b", "lib", []))  # fmt: skip
    for file, text in (("a/LICENSE-MIT", "mit"), ("a/zstd/COPYING", "bsd"), ("a/licensing.rs", "no"),
                       ("b/Cargo.toml", "no")):  # fmt: skip
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = crates.notices(crates.linked(printed))
    assert "a 1.0.0 (MIT/Apache-2.0)\n\n--- LICENSE-MIT\n\nmit\n--- zstd/COPYING\n\nbsd" in text
    assert "b 1.0.0 (MIT/Apache-2.0)\n\n(The package of this crate has no text" in text
    assert "no\n" not in text


def test_a_component_names_the_package_and_its_sum(crates, tmp_path):
    printed = metadata(tmp_path, ("own", "cdylib", [("a", None)]), ("a", "lib", []))
    [component] = crates.components(crates.linked(printed), {"a-1.0.0.crate": "00ff"})
    assert component["purl"] == "pkg:cargo/a@1.0.0"
    assert component["hashes"] == [{"alg": "SHA-256", "content": "00ff"}]
    assert component["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
