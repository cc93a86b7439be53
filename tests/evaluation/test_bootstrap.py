"""Intervals and tests against SciPy's, the binomial test and hand-worked cases."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, norm, permutation_test

from gtr_gpu.evaluation.bootstrap import compare, confidence_intervals


def interval(values, groups, seed=0):
    return confidence_intervals(values[:, None], groups, seed)[:, 0]


def compared(first, second, groups):
    (found,) = compare(first[:, None], second[:, None], groups)
    return found


def test_as_scipys_bootstrap():
    """Groups of different sizes: the mean over questions is a ratio of two sums over groups."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(120), rng.integers(1, 9, 120))
    values = rng.random(len(groups)) * (groups % 5)
    sums, counts = np.bincount(groups, weights=values), np.bincount(groups)
    theirs = bootstrap(
        (sums, counts),
        lambda drawn, sizes, axis: drawn.sum(axis) / sizes.sum(axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    np.testing.assert_allclose(interval(values, groups), [theirs.low, theirs.high], atol=0.012)


def test_single_questions_as_the_normal_interval():
    values = (np.random.default_rng(0).random(2000) < 0.3).astype(float)
    spread = norm.ppf(0.975) * values.std() / np.sqrt(2000)
    expected = [values.mean() - spread, values.mean() + spread]
    np.testing.assert_allclose(interval(values, np.arange(2000)), expected, atol=0.002)


def test_questions_of_one_table_count_as_one():
    """Ten copies of each question tell no more than one."""
    values = (np.random.default_rng(0).random(300) < 0.3).astype(float)
    alone = interval(values, np.arange(300))
    copied = interval(np.repeat(values, 10), np.repeat(np.arange(300), 10))
    np.testing.assert_allclose(copied, alone, atol=1e-12)
    careless = interval(np.repeat(values, 10), np.arange(3000))
    assert np.ptp(careless) < 0.5 * np.ptp(copied)


def test_the_paired_test_as_scipys():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(60), 3)
    first, second = rng.random(180), rng.random(180) - 0.05
    sums = np.bincount(groups, weights=first - second)
    theirs = permutation_test(
        (sums,), lambda drawn, axis: drawn.sum(axis), permutation_type="samples", n_resamples=50_000, rng=rng
    )
    assert compared(first, second, groups).p_value == pytest.approx(theirs.pvalue, abs=0.015)


def test_the_paired_test_as_the_sign_test():
    rng = np.random.default_rng(1)
    first, second = np.zeros(400), np.zeros(400)
    first[:60], second[60:95] = 1, 1
    order = rng.permutation(400)
    found = compared(first[order], second[order], np.arange(400))
    assert found.difference == pytest.approx(25 / 400)
    assert found.p_value == pytest.approx(binomtest(60, 95).pvalue, abs=0.01)
    assert found.low < found.difference < found.high
    assert compared(second, first, np.arange(400)).difference == pytest.approx(-25 / 400)


def test_few_groups_are_flipped_in_all_ways():
    # Four tables, all better: 2 of 16 ways of signs are as extreme.
    found = compared(np.ones(8), np.zeros(8), np.repeat(np.arange(4), 2))
    assert found.p_value == pytest.approx(2 / 16)


def test_a_chance_that_no_flip_met_is_not_nought():
    found = compared(np.ones(40), np.zeros(40), np.arange(40))
    assert found.p_value == pytest.approx(1 / 10_001)


def test_one_table_that_differs():
    found = compared(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.arange(3))
    assert (found.difference, found.p_value) == (pytest.approx(1 / 3), 1)


@pytest.mark.parametrize("n", [3, 30])
def test_the_same_methods(n):
    values = np.arange(n) / n
    assert compared(values, values, np.arange(n)) == (0, 0, 0, 1)


def test_one_group_or_none():
    assert interval(np.array([0.0, 1.0]), np.full(2, 7)).tolist() == [0.5, 0.5]
    assert np.isnan(interval(np.zeros(0), np.zeros(0, dtype=np.int64))).all()


def test_metrics_together_as_each_alone():
    rng = np.random.default_rng(0)
    values, others, groups = rng.random((80, 3)), rng.random((80, 3)), rng.integers(25, size=80)
    together, beside = confidence_intervals(values, groups), compare(values, others, groups)
    for column in range(3):
        np.testing.assert_allclose(together[:, column], interval(values[:, column], groups))
        np.testing.assert_allclose(beside[column], compared(values[:, column], others[:, column], groups))


def test_seeded():
    values, groups = np.random.default_rng(0).random(50), np.arange(50)
    assert interval(values, groups, 3).tolist() == interval(values, groups, 3).tolist()
    assert interval(values, groups, 3).tolist() != interval(values, groups, 4).tolist()
