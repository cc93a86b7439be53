"""Intervals and tests against a plain bootstrap, the binomial test and hand-worked cases."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from gtr_gpu.evaluation.bootstrap import compare, confidence_interval


def test_single_questions_as_the_normal_interval():
    values = (np.random.default_rng(0).random(2000) < 0.3).astype(float)
    low, high = confidence_interval(values, np.arange(2000))
    spread = norm.ppf(0.975) * values.std() / np.sqrt(2000)
    assert low == pytest.approx(values.mean() - spread, abs=0.002)
    assert high == pytest.approx(values.mean() + spread, abs=0.002)


def test_questions_of_one_table_count_as_one():
    """Ten copies of each question tell no more than one."""
    values = (np.random.default_rng(0).random(300) < 0.3).astype(float)
    alone = confidence_interval(values, np.arange(300))
    copied = confidence_interval(np.repeat(values, 10), np.repeat(np.arange(300), 10))
    assert copied == pytest.approx(alone, abs=0.005)
    careless = confidence_interval(np.repeat(values, 10), np.arange(3000))
    assert careless[1] - careless[0] < 0.5 * (copied[1] - copied[0])


def test_the_paired_test_as_the_sign_test():
    rng = np.random.default_rng(1)
    first, second = np.zeros(400), np.zeros(400)
    first[:60], second[60:95] = 1, 1
    order = rng.permutation(400)
    found = compare(first[order], second[order], np.arange(400))
    assert found.difference == pytest.approx(25 / 400)
    assert found.p_value == pytest.approx(binomtest(60, 95).pvalue, abs=0.01)
    assert found.low < found.difference < found.high
    assert compare(second, first, np.arange(400)).difference == pytest.approx(-25 / 400)


def test_few_groups_are_flipped_in_all_ways():
    # Four tables, all better: 2 of 16 ways of signs are as extreme.
    found = compare(np.ones(8), np.zeros(8), np.repeat(np.arange(4), 2))
    assert found.p_value == pytest.approx(2 / 16)


def test_one_table_that_differs():
    found = compare(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.arange(3))
    assert (found.difference, found.p_value) == (pytest.approx(1 / 3), 1)


def test_the_same_methods():
    values = np.array([0.0, 1.0, 1.0])
    assert compare(values, values, np.arange(3)) == (0, 0, 0, 1)


def test_one_group_or_none():
    assert confidence_interval(np.array([0.0, 1.0]), np.zeros(2, dtype=np.int64)) == (0.5, 0.5)
    assert np.isnan(confidence_interval(np.zeros(0), np.zeros(0, dtype=np.int64))).all()


def test_seeded():
    values, groups = np.random.default_rng(0).random(50), np.arange(50)
    assert confidence_interval(values, groups, 3) == confidence_interval(values, groups, 3)
    assert confidence_interval(values, groups, 3) != confidence_interval(values, groups, 4)
