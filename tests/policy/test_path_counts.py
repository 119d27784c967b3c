"""How often the paths of a policy were found."""

from penstock.policy.path_counts import CountsPaths


def test_paths_are_counted_since_the_last_call():
    policy = CountsPaths()
    policy.count_paths(["a", "b"])
    policy.add_found([0])
    policy.add_found([])

    assert policy.take_path_counts() == (2, {"a": 1, "b": 0})
    assert policy.take_path_counts() == (0, {"a": 0, "b": 0})
    policy.add_found({0, 1})
    assert policy.take_path_counts() == (1, {"a": 1, "b": 1})


def test_a_policy_that_is_not_configured_has_no_paths():
    assert CountsPaths().take_path_counts() == (0, {})
