"""Hypothesis' strategies for counted records."""

from hypothesis import strategies as st

from tests.jobs.report.samples import HOUR, records

SOME = st.builds(
    records,
    st.sampled_from(["a", "b"]),
    count=st.integers(1, 9),
    partition=st.integers(0, 3),
    hour=st.one_of(st.none(), st.integers(HOUR, HOUR + 50), st.just(10**12)),
    first=st.integers(0, 99),
    outcome=st.sampled_from(["refused", "dropped", "failed"]),
    message=st.sampled_from(["x", "y", None]),
)
ACCEPTED = st.builds(records, st.just("a"), count=st.integers(1, 9))
