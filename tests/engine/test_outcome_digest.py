"""The parts of the digest of everything that decides which records are stored."""

import os
import re
import subprocess
import threading
import time
import tracemalloc

import pytest

from penstock.configuration import read_configuration
from penstock.configuration.processes.bounded import Imports
from penstock.engine.plans import files_below, outcome_digest
from penstock.engine.plans.files_below import NotKnownError
from penstock.engine.plans.outcome_digest import OutcomeDigest
from penstock.engine.plans.plan import Plan

pytestmark = pytest.mark.system

MODULE = """
import helpers
from penstock.policy import *
class Interceptor(ProduceRequestInterceptor):
    pass
class WithKey(Interceptor):
    key_from = "env:KEY"
"""
PROPERTIES = {
    "upstream.bootstrap.servers": "127.0.0.1:1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "produce.request.interceptors": "own.Interceptor",
}
PATTERNS = [("own.Interceptor", re.compile("orders"))]


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "first")


def written(folder):
    folder.mkdir()
    (folder / "own.py").write_text(MODULE)
    (folder / "helpers.py").write_text("")
    (folder / "later.py").write_text("")
    (folder / "order.json").write_text("{}")
    return folder


def configured(folder, **more):
    properties = {**PROPERTIES, **{key.replace("__", "."): value for key, value in more.items()}}
    return read_configuration(folder / "gateway.properties", properties)


def digest(folder, patterns=PATTERNS, **more):
    configuration = configured(folder, **more)
    return OutcomeDigest(configuration, Plan(configuration.policies)).value(patterns)


def test_gateways_with_the_same_files_in_other_folders_have_the_same_digest(folder, tmp_path):
    other = written(tmp_path / "second")
    assert digest(folder) == digest(other)
    more = {"listeners": "PLAINTEXT://127.0.0.1:9", "advertised.host": "gateway-2"}
    assert digest(folder) == digest(other, **more)


@pytest.mark.parametrize("name", ["own.py", "helpers.py", "later.py", "order.json"])
def test_modules_and_schemas_count(folder, name):
    before = digest(folder)
    with (folder / name).open("a") as file:
        file.write("\n# changed\n")
    assert digest(folder) != before


def test_new_schemas_and_their_names_count(folder):
    before = digest(folder)
    (folder / "schemas").mkdir()
    (folder / "schemas" / "order.avsc").write_text("")
    between = digest(folder)
    (folder / "schemas" / "order.avsc").rename(folder / "schemas" / "other.avsc")
    assert len({before, between, digest(folder)}) == 3


@pytest.mark.parametrize("name", ["order.schema", "order.jsonschema"])
@pytest.mark.parametrize("interceptors", ["", "own.Interceptor"])
def test_schemas_with_other_endings_count(folder, name, interceptors):
    before = digest(folder, produce__request__interceptors=interceptors)
    (folder / name).write_text("{}")
    assert digest(folder, produce__request__interceptors=interceptors) != before


def test_keys_and_the_topics_of_interceptors_count(folder):
    changed = [
        digest(folder),
        digest(folder, penstock__mode="quarantine"),
        digest(folder, a__key__of__a__class="1"),
        digest(folder, [("own.Interceptor", re.compile("payments"))]),
        digest(folder, [*PATTERNS, *PATTERNS]),
        digest(folder, produce__request__interceptors=""),
    ]
    assert len(set(changed)) == len(changed)


def test_of_a_file_that_a_key_names_the_content_counts_and_not_its_folder(folder, tmp_path):
    first, second = tmp_path / "a" / "words.txt", tmp_path / "b" / "words.txt"
    for file in (first, second):
        file.parent.mkdir()
        file.write_text("one")
    assert digest(folder, words=str(first)) == digest(folder, words=str(second))
    second.write_text("two")
    assert digest(folder, words=str(first)) != digest(folder, words=str(second))


def test_the_name_of_a_folder_counts_if_its_files_do_not(folder, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "words.txt").write_text("one")
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    assert digest(folder, words=first) != digest(folder, words=second)
    assert digest(folder, words__folder=first) == digest(folder, words__folder=second)
    before = digest(folder, words__folder=second)
    (tmp_path / "b" / "words.txt").write_text("two")
    assert digest(folder, words__folder=second) != before


def test_installed_packages_count(folder, monkeypatch):
    before = digest(folder)
    monkeypatch.setattr(outcome_digest, "distributions", list)
    assert digest(folder) != before


@pytest.mark.parametrize("key", ["schema.registry.url", "policies.a.schema.registry.url"])
def test_the_digest_is_unknown_if_a_registry_decides(folder, key):
    with pytest.raises(NotKnownError, match="registry"):
        digest(folder, **{key: "http://127.0.0.1:1"})


def test_the_digest_is_unknown_if_topics_name_classes(folder):
    with pytest.raises(NotKnownError, match="topics may name classes"):
        digest(folder, records__policy__class__names__allowed="own.*")


def test_the_digest_is_unknown_if_a_class_reads_more_than_files(folder):
    with pytest.raises(NotKnownError, match="key_from"):
        digest(folder, produce__request__interceptors="own.WithKey")


def test_the_digest_is_unknown_if_a_class_cannot_be_imported(folder):
    (folder / "helpers.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(NotKnownError, match="cannot be found"):
        digest(folder)


def test_the_digest_is_unknown_if_files_change_while_they_are_read(folder):
    configuration = configured(folder)
    decides = OutcomeDigest(configuration, Plan(configuration.policies))
    (folder / "own.py").write_text(MODULE + "#")
    with pytest.raises(NotKnownError, match="changed while"):
        decides.value(PATTERNS)
    (folder / "own.py").unlink()
    with pytest.raises(NotKnownError, match="cannot be read"):
        decides.value(PATTERNS)


@pytest.mark.parametrize(
    ("module", "limit"), [(files_below, "FILES_MAX"), (outcome_digest, "_BYTES_MAX")]
)
def test_too_many_files_are_not_read(folder, monkeypatch, module, limit):
    monkeypatch.setattr(module, limit, 10)
    with pytest.raises(NotKnownError, match="more than 10"):
        digest(folder)


@pytest.mark.cases(1)
@pytest.mark.parametrize("key", ["metrics.drop", "audit.drop", "broker.drop", "ssl.drop"])
def test_keys_of_classes_count_whatever_they_are_called(folder, key):
    assert digest(folder, **{key: "1"}) != digest(folder, **{key: "2"})


def test_beside_a_whole_path_everything_in_a_value_counts(folder, tmp_path):
    (tmp_path / "order.proto").write_text("")
    (tmp_path / "order.json").write_text("")
    values = ["order.proto#A", "order.proto#B", "order.proto,1", "order.proto,2", "order.json"]
    found = [digest(folder, file=f"{tmp_path}/{value}") for value in values]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", ["rules/first.py", "words.txt"])
def test_files_that_a_class_may_read_or_import_later_count(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("one")
    before = digest(folder)
    (folder / name).write_text("two")
    assert digest(folder) != before


def test_folders_behind_links_count_and_may_form_a_loop(folder, tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.json").write_text("1")
    (folder / "schemas").symlink_to(tmp_path / "schemas")
    (folder / "again").symlink_to(folder)
    before = digest(folder)
    (tmp_path / "schemas" / "order.json").write_text("2")
    assert digest(folder) != before


def test_a_package_elsewhere_counts_with_all_its_modules(folder, tmp_path, monkeypatch):
    package = tmp_path / "elsewhere" / "package"
    (package / "later").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "later" / "rules.py").write_text("one")
    monkeypatch.setenv("PYTHONPATH", str(package.parent), prepend=os.pathsep)
    (folder / "helpers.py").write_text("import package")
    before = digest(folder)
    (package / "later" / "rules.py").write_text("two")
    assert digest(folder) != before


def test_variables_that_the_code_names_count(folder, monkeypatch):
    (folder / "helpers.py").write_text("import os\nDROP = os.environ.get('DROP_IF')\nP = 'RULE_'\n")
    found = [digest(folder)]
    for name, value in (("DROP_IF", "1"), ("DROP_IF", "2"), ("RULE_A", "1"), ("RULE_A", "2")):
        monkeypatch.setenv(name, value)
        found.append(digest(folder))
    assert len(set(found)) == len(found)
    monkeypatch.setenv("ANOTHER", "1")
    assert digest(folder) == found[-1]


def test_a_file_that_an_attribute_of_a_class_names_counts(folder, tmp_path):
    file = tmp_path / "contract.of.orders"
    file.write_text("one")
    (folder / "own.py").write_text(f"{MODULE}\nInterceptor.contract = {str(file)!r}\n")
    before = digest(folder)
    file.write_text("two")
    assert digest(folder) != before


def test_the_digest_is_unknown_if_a_key_names_the_place_of_a_secret(folder, monkeypatch):
    monkeypatch.setenv("HASH_KEY", "0123456789abcdef")
    of_policy = {"type": "HashJsonFields", "fields": "a", "topics": "o", "key.from": "env:HASH_KEY"}
    keys = {f"policies.hash.{key}": value for key, value in of_policy.items()}
    with pytest.raises(NotKnownError, match=r"key\.from"):
        digest(folder, policies="hash", **keys)


def test_only_regular_files_are_read(folder):
    before = digest(folder)
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(folder / "nothing.json")
    assert digest(folder) == before


def test_a_large_file_is_not_read_into_memory(folder):
    with (folder / "large.json").open("wb") as file:
        file.truncate(2**28 + 1)
    tracemalloc.start()
    try:
        with pytest.raises(NotKnownError, match="more than"):
            digest(folder)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_an_import_ends_when_it_is_not_needed_any_more(folder):
    (folder / "helpers.py").write_text("import time\ntime.sleep(50)\n")
    configuration, imports = configured(folder), Imports()
    threading.Timer(0.5, imports.end).start()
    began = time.monotonic()
    with pytest.raises(NotKnownError, match="cannot be found"):
        OutcomeDigest(configuration, Plan(configuration.policies), imports)
    assert time.monotonic() - began < 20


def test_a_process_that_an_import_starts_ends_with_it(folder):
    text = "import subprocess\nopen({!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
    pid = folder / "pid"
    (folder / "helpers.py").write_text(text.format(str(pid)))
    digest(folder)
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid.read_text()], capture_output=True, text=True, check=False
    )
    assert state.stdout.strip()[:1] in {"", "Z"}


def test_the_digest_is_unknown_without_a_place_for_files(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(folder / "nothing"))
    with pytest.raises(NotKnownError, match="cannot be found"):
        digest(folder)


def test_only_the_validation_policy_is_imported_from_the_class_path(folder, tmp_path, monkeypatch):
    """Others have modules of the same names elsewhere."""
    apart, elsewhere = tmp_path / "apart", tmp_path / "elsewhere"
    for place in (apart, elsewhere):
        place.mkdir()
        (place / "common.py").write_text("")
    policy = "from penstock.policy import *\nimport common\nclass Policy(RecordValidationPolicy):\n    pass\n"
    (apart / "apart.py").write_text(policy)
    (folder / "helpers.py").write_text("import common\n")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere), prepend=os.pathsep)
    keys = {
        "record.validation.policy.class.name": "apart.Policy",
        "record.validation.policy.class.path": str(apart),
    }
    before = digest(folder, **keys)
    (elsewhere / "common.py").write_text("changed = 1")
    assert digest(folder, **keys) != before
