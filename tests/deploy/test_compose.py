"""The files of deploy/compose; Docker itself is not needed to see them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from penstock.configuration import load_configuration
from tests.gateways import run_penstock

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "compose"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: Final = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Return the files and folders of this checkout that a service sees, by their place there."""
    split = (volume.split(":") for volume in SERVICES[service].get("volumes", ()))
    return {place: source for source, place, *_ in split if source.startswith(".")}


def test_services_have_images_of_a_version():
    for name, service in SERVICES.items():
        if "build" not in service:
            assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", service["image"]), name


def test_mounted_files_exist_and_cannot_be_changed():
    for name, service in SERVICES.items():
        for place, source in mounts(name).items():
            assert (FOLDER / source).exists(), source
            assert any(volume == f"{source}:{place}:ro" for volume in service["volumes"])
    built = SERVICES["penstock"]["build"]
    assert (FOLDER / built["context"] / built["dockerfile"]).exists()


def test_nothing_is_mounted_inside_a_mount_that_cannot_be_changed():
    """There, no runtime can create the place of the other mount."""
    for name in SERVICES:
        places = [Path(place) for place in mounts(name)]
        assert not [place for place in places if set(place.parents) & set(places)], name


def test_data_of_kafka_is_in_its_volume():
    environment, [volume] = SERVICES["kafka"]["environment"], SERVICES["kafka"]["volumes"]
    assert volume == f"kafka:{environment['KAFKA_LOG_DIRS']}"


def test_ports_are_open_on_this_machine_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_clients_reach_each_port_of_the_gateway(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TOKEN", "local")
    read = load_configuration(FOLDER / "gateway" / "penstock.properties")
    [port] = SERVICES["penstock"]["ports"]
    _, outside, inside = port.split(":")
    assert outside == inside
    first, last = map(int, inside.split("-"))
    assert set(read.broker_ports) <= set(range(first, last + 1))
    assert f":{first}/readyz" in SERVICES["penstock"]["healthcheck"]["test"][-1]


@pytest.mark.system
def test_the_gateway_accepts_its_file(monkeypatch):
    environment = SERVICES["penstock"]["environment"]
    monkeypatch.setenv("PENSTOCK_TOKEN", "local")
    places = mounts("penstock")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER / places[environment["PYTHONPATH"]]))
    done = run_penstock("check", FOLDER / places["/etc/penstock"] / "penstock.properties")
    assert done.returncode == 0, done.stderr
    assert "KeyRequired" in done.stdout
    assert "SchemaPolicy" in done.stdout


def test_prometheus_scrapes_the_job_of_the_alerts():
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    [job] = scraped["scrape_configs"]
    rules = (ROOT / "deploy" / "prometheus" / "penstock.rules.yml").read_text()
    assert set(re.findall(r'job="(.*?)"', rules)) == {job["job_name"]}
    places = set(mounts("prometheus"))
    assert {f"/etc/prometheus/{file}" for file in scraped["rule_files"]} <= places


def test_grafana_has_the_dashboard():
    provider = yaml.safe_load((FOLDER / "grafana" / "dashboards.yml").read_text())["providers"][0]
    [source] = [
        source
        for place, source in mounts("grafana").items()
        if Path(place).parent == Path(provider["options"]["path"])
    ]
    assert json.loads((FOLDER / source).read_text())["title"]
