"""The public interfaces to a type checker: what users write is right, and mistakes are found."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import policy

HERE = Path(__file__).parent


@pytest.mark.system
@pytest.mark.parametrize("file", ["policies.py", "mistakes.py"])
def test_mypy_agrees(file, tmp_path):
    (tmp_path / file).write_text((HERE / file).read_text())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path, file],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("with_context", "without"),
    [
        (policy.BrokerRecordValidatorWithContext, policy.BrokerRecordValidator),
        (policy.ProduceRequestInterceptorWithContext, policy.ProduceRequestInterceptor),
        (policy.RecordsPolicyWithContext, policy.RecordsPolicy),
        (policy.RecordValidationPolicyWithContext, policy.RecordValidationPolicy),
    ],
)
def test_at_runtime_a_class_with_a_context_is_one_without(with_context, without):
    """What type checkers see apart is together where it runs."""
    assert with_context.__mro__ == (with_context, without, object)
