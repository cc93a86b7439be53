"""Terms, counts, TF-IDF and evidence."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer

from gtr_gpu.features.heuristic import (
    Vocabulary,
    count_queries,
    count_terms,
    stop_words_of,
    tfidf,
)
from gtr_gpu.features.tokens import MAX_TERM, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The O'Brien's cats", ["the", "o", "brien", "cats"]),
        ("90 's and CH-47D unit_price", ["90", "and", "ch", "47d", "unit", "price"]),
        ("1992-93 1990s 4th", ["1992", "93", "1990s", "4th"]),
        ("1,234 and 1,234,567 or 1,2 or 2003,2008", ["1234", "and", "#int7", "or", "1", "2", "or", "2003", "2008"]),
        ("9999 10000 007", ["9999", "#int5", "007"]),
        ("3.5mm 26:48.36 31.12.1999 1.5e-07 12.5%", ["#dec1", "mm", "#time2", "#dots3", "#dec1", "#dec2"]),
        ("3ffd9053-a45d deadbeef ac0123456789abcd0", ["#id", "a45d", "deadbeef", "#id"]),
        ("São Paulo\u2019s STRASSE Straße ﬁne", ["sao", "paulo", "strasse", "strasse", "fine"]),
        ("Łódź Ærøskøbing Þingvellir", ["lodz", "aeroskobing", "thingvellir"]),
        ("東京都 iPhone手机2019年", ["東京", "京都", "iphone", "手机", "2019", "年"]),
        ("ไทย ٣٤٥ कितने", ["ไท", "ทย", "345", "कितने"]),
        ("a\u00adb \u200b\ufeff__ ½", ["ab", "1", "2"]),
        ("", []),
        ("?!", []),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


def test_what_numbers_become():
    text = "12 1,234.5 12345 7:30 b2"
    assert terms(text, "fold") == ["#int2", "#dec4", "#int5", "#time2", "b2"]
    assert terms(text, "short") == ["12", "#dec4", "#int5", "#time2", "b2"]
    assert terms(text, "keep") == ["12", "1234.5", "12345", "7:30", "b2"]


@given(st.text(), st.sampled_from(["fold", "short", "keep"]))
def test_terms_of_any_text_are_short_and_folded(text, numbers):
    found = terms(text, numbers)
    for term in found:
        assert 0 < len(term) <= MAX_TERM
        assert not any(char.isspace() for char in term)
    assert terms(f" {text}\n", numbers) == found


@given(st.text(alphabet="0123456789.,:e-+ ab", max_size=40))
def test_short_numbers_have_few_terms(text):
    for term in terms(text, "short"):
        assert term.startswith("#") or len(term) <= 4 or any(map(str.isalpha, term))


@given(st.text(alphabet="abz019 ,.:'-_#$é東", max_size=60))
def test_ascii_and_unicode_paths_agree(text):
    beyond = terms(f"{text} é")
    assert terms(text) == beyond[:-1] or not text.isascii()
    assert beyond[-1] == "e"


def test_vocabulary_only_grows():
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.add(["b", "c", "a", "d"]) == [1, 2, 0, 3]
    assert vocabulary.to_list(2) == ["c", "d"]
    assert Vocabulary(vocabulary.to_list()).ids == vocabulary.ids
    assert vocabulary.known(["x", "d"]) == [3]
    assert "x" not in vocabulary


FIELDS = [("cities of europe city", "berlin 12.5\nberlin 7"), ("", ""), ("city", "paris 7 7 7"), ("no cells", "")]


def test_counts_apart_for_cells():
    vocabulary = Vocabulary()
    found = count_terms(FIELDS, vocabulary)
    names = vocabulary.to_list()
    rows = [
        {names[i]: n for i, n in zip(found.counts.columns[row].tolist(), _row(found.counts, row), strict=True)}
        for row in range(4)
    ]
    assert rows[0] == {"cities": 1, "of": 1, "europe": 1, "city": 1, "berlin": 2, "#dec2": 1, "7": 1}
    assert rows[1:] == [{}, {"city": 1, "paris": 1, "7": 3}, {"no": 1, "cells": 1}]
    assert found.lengths.tolist() == [8, 0, 5, 2]
    in_cells = [[names[i] for i in row] for row in found.cell_terms().to_lists()]
    assert in_cells == [["berlin", "#dec2", "7"], [], ["7", "paris"], []]


def test_blocks_change_no_count(monkeypatch):
    fields = [(f"caption {i % 5}", f"cell {i} x{i % 3} " * (i % 7)) for i in range(50)]
    whole = count_terms(fields, Vocabulary())
    monkeypatch.setattr("gtr_gpu.features.heuristic._BLOCK_TOKENS", 10)
    parts = count_terms(fields, Vocabulary())
    for name in ("values", "offsets"):
        assert torch.equal(getattr(whole.counts.columns, name), getattr(parts.counts.columns, name))
    assert torch.equal(whole.counts.weights, parts.counts.weights)
    assert torch.equal(whole.cell_counts, parts.cell_counts)
    assert whole.counts.shape == parts.counts.shape


def test_counts_of_questions():
    vocabulary = Vocabulary(["berlin", "7"])
    found = count_queries(["Berlin, Berlin or Paris?", "", "7"], vocabulary)
    assert _scipy(found).toarray().tolist() == [[2, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("model", "word"), [("auto", "which"), ("blank:de", "welche"), ("de_core_news_sm", "welche"), ("grc_x", "την")]
)
def test_stop_words_are_those_of_the_pipelines_language(model, word):
    assert terms(word)[0] in stop_words_of(model)


@pytest.mark.parametrize(
    "model", ["./x", "/m/v1.2/model", "en/model", "en", "qq_core", "xx_ent_wiki_sm", "blank:", "."]
)
def test_a_pipeline_of_no_known_language_has_no_stop_words(model):
    assert stop_words_of(model) == frozenset()


@pytest.mark.parametrize("sublinear", [True, False])
def test_tfidf_is_that_of_scikit_learn(sublinear):
    random = np.random.default_rng(5)
    dense = random.poisson(0.3, (60, 40))
    dense[7] = 0
    fields = [(" ".join(f"w{j} " * n for j, n in enumerate(row)), "") for row in dense]
    found = count_terms(fields, Vocabulary(f"w{j}" for j in range(40)))
    own = _scipy(tfidf(found.counts, _frequencies(found.counts), 60, sublinear)).toarray()
    expected = TfidfTransformer(sublinear_tf=sublinear).fit_transform(csr_matrix(dense)).toarray()
    np.testing.assert_allclose(own, expected, atol=1e-6)
    assert not own[7].any()


def test_tfidf_of_real_tables(shared_data):
    import zstandard

    with zstandard.open(shared_data / "wtq" / "tables.jsonl.zst", "rt", encoding="utf-8") as lines:
        tables = [json.loads(line) for line, _ in zip(lines, range(300), strict=False)]
    fields = [(f"{t['caption']} {' '.join(t['header'])}", "\n".join(map(" ".join, t["rows"]))) for t in tables]
    found = count_terms(fields, Vocabulary())
    own = _scipy(tfidf(found.counts, _frequencies(found.counts), len(tables)))
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(_scipy(found.counts))
    assert own.nnz > 10_000
    assert abs(own - expected).max() < 1e-5


def _frequencies(matrix):
    return torch.from_numpy(_scipy(matrix).getnnz(axis=0)).long()


def _scipy(matrix):
    columns = matrix.columns
    return csr_matrix((matrix.weights.numpy(), columns.values.numpy(), columns.offsets.numpy()), matrix.shape)


def _row(matrix, row):
    return matrix.weights[int(matrix.columns.offsets[row]) : int(matrix.columns.offsets[row + 1])].tolist()
