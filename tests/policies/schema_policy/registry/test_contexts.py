"""How contexts are spelled in URLs and subjects."""

import pytest

from penstock.policies.schema_policy.registry.contexts import QualifiedSubject, context_of_url


@pytest.mark.parametrize(
    ("url", "context"),
    [
        ("http://a", "."),
        ("http://a/apis/ccompat/v7", "."),
        ("http://a/contexts/.", "."),
        ("http://a/contexts/.b", ".b"),
        ("http://a/contexts/b/", ".b"),
        ("http://a/contexts/:.b:", ".b"),
        ("http://a/api/contexts/%3A.b%3A", ".b"),
        ("http://a/contexts/.b/subjects", "."),
    ],
)
def test_a_url_ends_with_its_context(url, context):
    assert context_of_url(url) == context


def test_no_context_has_a_colon():
    with pytest.raises(ValueError, match="colon"):
        context_of_url("http://a/contexts/.b:c")


@pytest.mark.parametrize(
    ("text", "context", "name"),
    [
        ("a", ".own", "a"),
        (":.b:a", ".b", "a"),
        (":.b:a:c", ".b", "a:c"),
        (":.:a", ".", "a"),
        (":.b", ".b", ""),
        (":a", ".own", ":a"),
    ],
)
def test_a_subject_names_its_context_or_is_in_that_of_the_url(text, context, name):
    found = QualifiedSubject.read(text, ".own")
    assert found == (context, name)
    assert found.within(context) == name
    assert found.within(".else") == str(found) == f":{context}:{name}"
