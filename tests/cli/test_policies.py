"""`penstock policies`, and policies in a separate wheel."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.gateways import PENSTOCK, without_plans, without_waiting

pytestmark = pytest.mark.system
MODULE = '''
from penstock.policy import ConfigKey, InvalidRecordException, RecordValidationPolicy

class Amounts(RecordValidationPolicy):
    """Refuses amounts that are too large. Of any currency."""

    config_keys = (
        ConfigKey("amount.max", "INT", documentation="The largest.", required=True),
        ConfigKey("amount.field", default="amount", documentation="Where it stands."),
        ConfigKey("secret", "PASSWORD"),
    )

    def configure(self, configs):
        self.largest = int(configs["amount.max"])

    def validate(self, topic, record):
        if int(record.value) > self.largest:
            raise InvalidRecordException(f"more than {self.largest}")
'''
ENTRY_POINTS = "[penstock.policies]\namounts = acme_policies:Amounts\nbroken = acme_gone:Gone\n"


def wheel(folder, name="acme_policies", version="1.0"):
    """Write a wheel as a build backend does."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": MODULE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)
    return path


def _digest(text):
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which the wheel is installed by pip."""
    folder = tmp_path_factory.mktemp("wheel")
    target = folder / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
         "--target", str(target), str(wheel(folder))],
        check=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return {**os.environ, "PYTHONPATH": str(target)}


def penstock(environment, *arguments):
    return subprocess.run(
        [*PENSTOCK, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path):
    def write(**more):
        lines = {
            "upstream.bootstrap.servers": "nowhere.invalid:1",
            "policies": "large",
            "policies.large.type": "amounts",
            "policies.large.amount.max": "10",
            "policies.large.secret": "hush",
            "policies.large.mode": "observe",
            "topics.orders.penstock.policies": "large",
            **more,
        }
        path = tmp_path / "penstock.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    return write


def test_a_policy_of_a_wheel_is_named_by_its_short_name(environment, file):
    checked = penstock(environment, "check", file())
    assert (checked.returncode, without_waiting(checked.stderr)) == (0, "")
    assert "1. record  large (acme_policies:Amounts)  mode=observe" in checked.stdout

    judged = penstock(environment, "explain", file(), "--topic", "orders", "--value", "11")
    assert "large: refused with 87: more than 10" in judged.stdout


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"policies.large.type": "amount"}, "did you mean amounts?"),
        ({"policies.large.type": "broken"}, "there is no module acme_gone"),
        ({"policies.large.amount.mx": "1"}, "did you mean policies.large.amount.max?"),
        ({"policies.large.amount.max": "much"}, "policies.large.amount.max must be a whole number"),
        ({"topics.orders.penstock.policies": "larg"}, "did you mean large?"),
    ],
)
def test_mistakes_are_reported_at_the_start(environment, file, more, why):
    done = penstock(environment, "check", file(**more))

    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert "hush" not in done.stderr


def test_the_list_has_built_in_installed_and_named_policies(environment, file):
    path = file()
    done = penstock(environment, "policies", path)

    assert (done.returncode, done.stderr) == (0, "")
    built_in, _, rest = done.stdout.partition("installed (entry point group penstock.policies)\n")
    installed, _, of_file = rest.partition(f"of {path}\n")
    assert "  JsonSchema  penstock.policies.JsonSchema  (KIP-940, records)" in built_in
    assert installed.startswith(
        "  amounts  acme_policies:Amounts  (KIP-940, records, acme_policies)\n"
        "    Refuses amounts that are too large.\n"
        "    amount.max  INT, required\n"
        "      The largest.\n"
        "    amount.field  STRING, default amount\n"
        "      Where it stands.\n"
        "    secret  PASSWORD, no default\n"
        "  broken  acme_gone:Gone, acme_policies\n"
        "    cannot be used: "
    )
    assert "    amount.max  INT, required; set in the file\n" in of_file
    assert "    mode=observe\n" in of_file
    assert "hush" not in done.stdout


def test_the_list_for_programs(environment, file):
    done = penstock(environment, "policies", "--json", file())

    listed = {
        (policy["origin"], policy["name"]): policy for policy in json.loads(done.stdout)["policies"]
    }
    large = listed["file", "large"]
    assert (large["class"], large["mode"]) == ("acme_policies:Amounts", "observe")
    assert large["set"] == ["amount.max", "secret"]
    assert large["keys"][0] == {
        "name": "amount.max", "type": "INT", "default": None, "documentation": "The largest.",
        "valid_values": [], "required": True,
    }  # fmt: skip
    assert listed["installed", "broken"]["keys"] == []
    assert "there is no module acme_gone" in listed["installed", "broken"]["error"]
    assert ("built-in", "JsonSchema") in listed


def test_without_named_policies(environment, file):
    path = file(policies="", **{"topics.orders.penstock.policies": ""})
    done = penstock(environment, "policies", path)
    assert done.stdout.endswith(f"of {path}\n  none\n")

    path.write_text("policies=")
    assert penstock(environment, "policies", path).returncode == 2


def test_the_example_of_an_installed_policy_works(environment):
    file = Path(__file__).parents[2] / "examples" / "named" / "gateway.properties"
    checked = penstock(environment, "check", file)
    assert (checked.returncode, without_waiting(checked.stderr)) == (0, "")
    printed, plans = without_plans(checked.stdout)
    assert plans == 2
    assert printed.endswith(
        "topics orders-eu\n  1. interceptor masked (limits.Mask)\n  2. record  small (limits.Limit)\n"
        'topics orders-* (names that begin with "orders-")\n  1. record  large (limits.Limit)\n'
        "topics *\n  no policy\n"
        "topics that the file does not name without a wildcard: if compacted, or named "
        "*-changelog, *-repartition, connect-*, mm2-*, *.internal, bad records are refused, and "
        "not set aside or dropped (penstock.quarantine.internal.topics)\nok\n"
    )
    value = '{"amount": 120, "card": "4000"}'
    for topic, expected in (
        (
            "orders-eu",
            ["masked: replaced value", "small: refused with 87: amount must be a number up"],
        ),
        ("orders-us", ["large: accepted"]),
    ):
        judged = penstock(environment, "explain", file, "--topic", topic, "--value", value).stdout
        assert [line for line in expected if line not in judged] == []
