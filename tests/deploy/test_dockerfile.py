"""The Dockerfile keeps the rules that matter; no Docker is needed to see it."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
IGNORED = ROOT / "deploy" / "docker" / "Dockerfile.dockerignore"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their arguments, lines that continue put together."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in whole.splitlines() if line]  # type: ignore[misc]


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, FROM included."""
    found: list[list[tuple[str, str]]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def of_last_stage(name: str) -> list[str]:
    return [arguments for given, arguments in stages()[-1] if given == name]


def test_every_instruction_is_known():
    known = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}
    assert {name for name, _ in instructions()} == known  # no ADD, which fetches and unpacks


def test_base_images_are_of_a_version_and_a_distribution():
    arguments = dict(text.split("=", 1) for name, text in instructions() if name == "ARG")
    for stage in stages():
        image = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], stage[0][1].split()[0])
        assert re.fullmatch(r"[a-z]+:\d+\.\d+-slim-[a-z]+", image), image


def test_the_package_names_the_python_of_the_image():
    [python] = re.findall(r"python:([\d.]+)-", DOCKERFILE.read_text())
    assert f"Programming Language :: Python :: {python}" in (ROOT / "pyproject.toml").read_text()


def test_the_image_is_a_separate_stage_without_run():
    assert len(stages()) > 1
    assert of_last_stage("RUN") == []  # neither a compiler nor a package of the build is in it
    for copied in of_last_stage("COPY"):
        assert copied.startswith("--from=environment ")


def test_it_does_not_run_as_root():
    [user] = of_last_stage("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)  # by number: runAsNonRoot reads no names
    names = [name for name, _ in stages()[-1]]
    assert names.index("USER") > names.index("COPY")


def test_signals_reach_the_gateway():
    [program], [arguments] = of_last_stage("ENTRYPOINT"), of_last_stage("CMD")
    blocks = ["env", "--block-signal=TERM,INT"]  # until the gateway handles them, as process 1
    assert json.loads(program) == [*blocks, "penstock"]
    assert json.loads(arguments) == ["gateway", "/etc/penstock/penstock.properties"]


def test_packages_are_installed_by_hash_or_from_this_checkout():
    installs = [
        part
        for name, text in instructions()
        if name == "RUN"
        for part in text.split("&&")
        if " install " in part and "pip" in part
    ]
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--no-index" in install, install


def test_no_code_of_a_crate_runs_before_it_is_compared_with_its_sum():
    [build] = [text for name, text in instructions() if name == "RUN" and "maturin build" in text]
    steps = [part.strip() for part in build.split("&&")]
    assert steps[0].startswith("cargo fetch ")
    assert steps[1] == "python native/check_crates.py native/Cargo.lock native/crates.sha256"
    assert "--locked" in steps[2]


def test_copied_files_exist_and_are_in_the_context():
    in_context = {
        line.removeprefix("!") for line in IGNORED.read_text().splitlines() if line[0] == "!"
    }
    copied = [
        source
        for name, text in instructions()
        if name == "COPY" and "--from" not in text
        for source in text.split()[:-1]
    ]
    assert len(copied) > 5
    for source in copied:
        assert (ROOT / source).exists(), source
        assert source in in_context, source
    assert in_context == set(copied)


def test_no_secret_is_built_in():
    assert not re.search(r"(?i)password|token|secret|https?://", DOCKERFILE.read_text())
