"""The schemas that the protocol library lacks: generated from Kafka's own descriptions."""

from pathlib import Path

import pytest
from kio import index
from kio.schema.index import api_key_map, schema_name_map

from penstock.gateway.sessions.routes import FETCH, ROUTES, SASL_HANDSHAKE, route
from penstock.kafka.wire import schemas
from penstock.kafka.wire.structures import FIXED_SIZES, structure_of
from tests.kafka.wire.generated_schemas import descriptions, generated, load, versions

FOLDER = Path(schemas.__file__).parent
NOT_SERVED = {(FETCH, 16), (FETCH, 17), (FETCH, 18), (SASL_HANDSHAKE, 0)}
"""gateway/sessions/routes.py has the reasons."""
RECORDS = {"records": "bytes"}


def layout(structure):
    """Return what the bytes of a structure look like."""
    fields = (*structure.fields, *structure.tagged_fields.values())
    return structure.flexible, [
        (
            FIXED_SIZES.get(
                field.kafka_type or "", RECORDS.get(field.kafka_type, field.kafka_type)
            ),
            field.array,
            field.nullable and (field.array or field.kafka_type not in FIXED_SIZES),
            field.tag,
            field.structure and layout(field.structure),
        )
        for field in fields
    ]


@pytest.mark.system
def test_the_generated_modules_are_those_of_kafkas_descriptions():
    texts = {file.name: file.read_text() for file in FOLDER.glob("*_v*.py")}
    assert texts == generated()


def test_a_version_that_the_library_has_is_not_generated():
    for api_key, (name, version) in schemas.ADDED.items():
        assert version not in schema_name_map[name], api_key
        assert schemas.API_NAMES[api_key] == name
        assert schemas.known_versions(api_key)[-1] == version
    assert not set(api_key_map) & {93, 94}


@pytest.mark.system
def test_generated_types_have_the_layout_of_the_librarys():
    different = []
    for name, described in descriptions().items():
        api_key, kind = described["apiKey"], described["type"]
        library = getattr(index, f"load_{kind}_schema")
        of_library = schema_name_map[api_key_map[api_key]] if api_key in api_key_map else ()
        for version in set(of_library) & set(versions(described["validVersions"])):
            made, known = load(api_key, version, kind), library(api_key, version)
            is_same_header = made.__header_schema__ is known.__header_schema__
            if not is_same_header or layout(structure_of(made)) != layout(structure_of(known)):
                different.append((name, version))
    assert different == []


@pytest.mark.system
def test_each_version_of_each_api_of_kafka_is_served():
    """An API without a row is forwarded in every version. Each has a name in the metrics."""
    missing = set()
    for of in descriptions().values():
        if of["type"] == "request" and versions(of["validVersions"]):
            api_key = of["apiKey"]
            first, last = route(api_key).versions
            assert api_key in schemas.API_NAMES
            missing |= {
                (api_key, version)
                for version in versions(of["validVersions"])
                if not first <= version <= last
            }
    assert missing == NOT_SERVED


def test_every_served_version_of_an_api_that_is_read_has_a_schema():
    for row in ROUTES:
        first, last = row.versions
        known = schemas.known_versions(row.api_key)
        for version in range(max(first, known[0]), min(last, known[-1]) + 1):
            request = schemas.load_request_schema(row.api_key, version)
            response = schemas.load_response_schema(row.api_key, version)
            assert request.__version__ == response.__version__ == version
            assert request.__api_key__ == response.__api_key__ == row.api_key
