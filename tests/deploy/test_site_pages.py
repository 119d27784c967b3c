"""`make site`: the pages that are put together, and nothing that was there before."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "deploy/site/pages.py"


def pages():
    specification = importlib.util.spec_from_file_location("pages", FILE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("linked", [False, True])
def test_a_page_that_is_no_more_goes(tmp_path, linked):
    real = tmp_path / "real"
    (real / "docs").mkdir(parents=True)
    (real / "docs" / "gone.md").touch()
    folder = real
    if linked:
        folder = tmp_path / "link"
        folder.symlink_to(real)

    pages().put_together(folder)

    assert not (real / "docs" / "gone.md").exists()
    assert (real / "docs" / "design.md").exists()
    assert (real / "examples" / "policies" / "repair_orders.py").exists()


def test_a_first_time_makes_the_folder(tmp_path):
    pages().put_together(tmp_path / "new")
    assert (tmp_path / "new" / "README.md").exists()
