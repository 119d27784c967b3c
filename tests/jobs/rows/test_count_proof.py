"""The number of written records is compared with that in the files."""

import pytest

from penstock.errors import UnavailableError
from penstock.jobs.rows.count_proof import CountProof


@pytest.mark.parametrize(("written", "left_out"), [(3, 0), (1, 2), (0, 3)])
def test_as_many_as_were_read(written, left_out):
    CountProof("--input x", 3, lambda: left_out).check(written)


@pytest.mark.parametrize("written", [1999, 2001])
def test_fewer_or_more_are_an_error(written):
    with pytest.raises(UnavailableError) as error:
        CountProof("--input x", 2000).check(written)
    assert str(error.value) == (
        f"--input x: the files have 2,000 records, and {written:,} were read: no file is removed, "
        "and no folder is changed; run the command again"
    )
