"""The files that browsers load: no inline code, and no other hosts."""

import re
from importlib.resources import files

import pytest

from penstock.gateway.observing.console import assets

NAMES = [assets.PAGE, assets.LOGIN, *assets.PUBLIC]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served(name):
    answer = assets.asset(name)
    assert answer.status == 200
    assert len(answer.body) < 32_000
    assert answer.content_type.partition(";")[0] in {
        "text/html", "text/css", "text/javascript", "image/svg+xml",
    }  # fmt: skip


def test_every_file_of_the_page_is_tested():
    folder = files("penstock.gateway.observing.console") / "page"
    assert {file.name for file in folder.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_files_request_no_other_host(name):
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", assets.asset(name).body.decode())
    assert set(addresses) <= {"http://www.w3.org"}


@pytest.mark.parametrize("name", [assets.PAGE, assets.LOGIN])
def test_pages_have_no_inline_code_or_style(name):
    text = assets.asset(name).body.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".js")])
def test_scripts_never_insert_text_as_html(name):
    text = assets.asset(name).body.decode()
    assert not re.search(
        r"(innerHTML|outerHTML)\s*=[^=]|insertAdjacentHTML|document\.write|eval\(|new Function",
        text,
    )


def test_the_login_page_reports_a_wrong_token():
    assert b"This is not the token" in assets.login(was_wrong=True).body
    assert b"This is not the token" not in assets.login().body
