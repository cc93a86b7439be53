"""Questions in the features of the tables: what is loaded for them, and when."""

import dataclasses

import pytest
from index_fakes import fast_config, install, make_queries, make_tables

from gtr_gpu import building, questions
from gtr_gpu.errors import GTRError
from gtr_gpu.features import structural
from gtr_gpu.features.phrases import question_phrases
from gtr_gpu.features.stems import stem_of
from gtr_gpu.index import GTRIndex
from gtr_gpu.questions import QuestionReader
from gtr_gpu.storage import IndexFolder

TABLES = make_tables(12)
QUERIES = make_queries(TABLES, 3)
STRUCTURAL = {"modalities": ("semantic", "structural"), "query_features": "native"}


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    return install(monkeypatch)


@pytest.fixture
def loaded(monkeypatch):
    """The settings of the pipelines that questions were read with."""
    found = []
    featurizer = questions.StructuralFeaturizer

    def load(config):
        found.append((config.spacy_model, config.structural_features))
        return featurizer(config)

    monkeypatch.setattr(questions, "StructuralFeaturizer", load)
    return found


def test_the_pipeline_is_loaded_for_clusters_that_use_it_and_for_nothing_else(tmp_path, loaded):
    index = GTRIndex.build(TABLES, tmp_path / "x", config=fast_config(n_clusters=2))
    for knobs in (
        {},
        STRUCTURAL,  # a small index is searched flat
        {"coarse": "clusters"},
        {"coarse": "clusters", **STRUCTURAL, "query_features": "semantic", "cluster_score": "mean"},
    ):
        index.search(QUERIES, 3, config=fast_config(**knobs))
    assert loaded == []
    for _ in range(2):
        index.search(QUERIES, 3, config=fast_config(coarse="clusters", **STRUCTURAL))
    assert loaded == [("blank:en", "tags")]


def test_phrases_are_read_where_scores_are_pooled_and_nowhere_else(tmp_path, encoder):
    snapshot = GTRIndex.build(TABLES, tmp_path / "x", config=fast_config(n_clusters=2))._snapshot
    for personalization in ("semantic", "lexical", "mixed"):
        config = fast_config(personalization=personalization)
        features, _ = QuestionReader().read(QUERIES, encoder, snapshot, config, clusters=False)
        assert features.phrases is features.slice(1, 3).phrases is None
    features, _ = QuestionReader().read(["One two", "", "TWO"][::2], encoder, snapshot, fast_config(), clusters=False)
    assert features.phrases.to_lists() == question_phrases(["one two", "two"], stem_of("auto", "blank:en")).to_lists()
    assert features.slice(1, 2).phrases.to_lists() == [features.phrases[1].tolist()]


def test_the_pipeline_is_that_of_the_index_that_took_anothers_place(tmp_path, loaded, encoder):
    reader = QuestionReader()
    for kind, width in (("tags", 5), ("paper", 3), ("tags", 5)):
        config = fast_config(n_clusters=2, structural_features=kind, **STRUCTURAL)
        snapshot = GTRIndex.build(TABLES, tmp_path / "x", config=config, overwrite=True)._snapshot
        for _ in range(2):
            features, _ = reader.read(QUERIES, encoder, snapshot, config, clusters=True)
            assert features.structural.shape == (3, width)
    assert loaded == [("blank:en", "tags"), ("blank:en", "paper"), ("blank:en", "tags")]


def install_another(monkeypatch, **attributes):
    """Changes attributes of every pipeline that is loaded from now on."""
    featurizer = structural.StructuralFeaturizer

    def load(config):
        loaded = featurizer(config)
        vars(loaded).update(attributes)
        return loaded

    for module in (building, questions):
        monkeypatch.setattr(module, "StructuralFeaturizer", load)


def forget_pipeline(path):
    """Makes an index as it was before the name of the pipeline was kept."""
    with IndexFolder(path).writer() as transaction:
        facts = dict(transaction.manifest.encoder)
        del facts["spacy_pipeline"]
        transaction.commit(dataclasses.replace(transaction.manifest, encoder=facts))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("searched", [True, False])
def test_another_pipeline_is_told_once(tmp_path, monkeypatch, caplog, known, searched):
    modalities = ("semantic", "structural") if searched else ("semantic", "heuristic")
    config = fast_config(n_clusters=2, coarse="clusters", query_features="native", modalities=modalities)
    index = GTRIndex.build(TABLES[:9], tmp_path / "x", config=config)
    assert index.info()["encoder"]["spacy_pipeline"] == "blank:en"
    if not known:
        forget_pipeline(tmp_path / "x")
    index = GTRIndex.load(tmp_path / "x")
    for _ in range(2):
        index.search(QUERIES, 3)
    GTRIndex.load(tmp_path / "x").add(TABLES[9:10])
    assert "spaCy pipeline" not in caplog.text
    install_another(monkeypatch, name="en_other-1")
    GTRIndex.load(tmp_path / "x").add(TABLES[10:])
    assert caplog.text.count("by the spaCy pipeline blank:en and these are by en_other-1") == (known and searched)
    caplog.clear()
    index = GTRIndex.load(tmp_path / "x")
    for _ in range(2):
        index.search(QUERIES, 3)
    assert caplog.text.count("by the spaCy pipeline blank:en and these are by en_other-1") == (known and searched)
    index.rebuild()
    assert index.info()["encoder"].get("spacy_pipeline") == ("blank:en" if known else None)


def test_a_pipeline_that_counts_other_numbers_is_refused(tmp_path, monkeypatch):
    config = fast_config(n_clusters=2, coarse="clusters", **STRUCTURAL)
    index = GTRIndex.build(TABLES[:9], tmp_path / "x", config=config)
    install_another(monkeypatch, names=["tokens"], name="en_other-1")
    for change in (lambda index: index.add(TABLES[9:]), lambda index: index.search(QUERIES, 3)):
        with pytest.raises(GTRError, match=r"need the spaCy pipeline blank:en, which counts 5 .* got en_other-1"):
            change(GTRIndex.load(tmp_path / "x"))
    assert index.info()["generation"] == GTRIndex.load(tmp_path / "x").info()["generation"] == 1


def test_an_encoders_folder_is_kept_as_an_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    config = fast_config(n_clusters=2, encoder="./model")
    index = GTRIndex.build(TABLES, tmp_path / "x", config=config)
    assert index.config.encoder == str(tmp_path / "model")
    index.rebuild(config=config)
    assert index.config.encoder == str(tmp_path / "model")
