"""The Helm chart in `deploy/helm`, and helm, where it is."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[2] / "deploy" / "helm" / "penstock"
OF_A_CLUSTER: Final = ("--kube-version", "1.33.0")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the helm of `make chart`, or the helm of this machine."""
    built = Path(os.environ["PENSTOCK_CACHE"]) / "go" / "bin" / "helm"
    program = str(built) if built.exists() else shutil.which("helm")
    assert program is not None, "helm is missing: make chart builds it with Go"
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def render(
    folder: Path, values: Mapping[str, Any], chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """Let helm render a chart, which generates the token unless the values say otherwise."""
    own, file = folder / "own.yaml", folder / "values.yaml"
    own.write_text(yaml.safe_dump({"metrics": {"token": {"generate": True}}}))
    file.write_text(yaml.safe_dump(dict(values)))
    return helm(
        "template", "trial", str(chart), "--namespace", "kafka", "--values", str(own),
        "--values", str(file), *OF_A_CLUSTER
    )  # fmt: skip


def rendered(folder: Path, values: Mapping[str, Any], chart: Path = CHART) -> list[dict[str, Any]]:
    """Return the objects that a chart renders for values."""
    done = render(folder, values, chart)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document is not None]


def notes_of(folder: Path, values: Mapping[str, Any]) -> str:
    """Return the text that `helm install` prints for values.

    It prints the text only where it reaches a cluster, so a copy of the chart renders it as a value
    of an object.
    """
    chart = shutil.copytree(CHART, folder / "chart")
    (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "NOTES.txt") . | quote }}\n'
    )
    return str(only(rendered(folder, values, chart), "Notes")["text"])


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    [found] = [document for document in objects if document["kind"] == kind]
    return found
