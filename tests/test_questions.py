"""Questions in the features of the tables: what is loaded for them, and when."""

import pytest
from index_fakes import fast_config, install, make_queries, make_tables

from gtr_gpu import questions
from gtr_gpu.index import GTRIndex
from gtr_gpu.questions import QuestionReader

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


def test_the_pipeline_is_that_of_the_index_that_took_anothers_place(tmp_path, loaded, encoder):
    reader = QuestionReader()
    for kind, width in (("tags", 5), ("paper", 3), ("tags", 5)):
        config = fast_config(n_clusters=2, structural_features=kind, **STRUCTURAL)
        snapshot = GTRIndex.build(TABLES, tmp_path / "x", config=config, overwrite=True)._snapshot
        for _ in range(2):
            features, _ = reader.read(QUERIES, encoder, snapshot, config, clusters=True)
            assert features.structural.shape == (3, width)
    assert loaded == [("blank:en", "tags"), ("blank:en", "paper"), ("blank:en", "tags")]


def test_an_encoders_folder_is_kept_as_an_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    config = fast_config(n_clusters=2, encoder="./model")
    index = GTRIndex.build(TABLES, tmp_path / "x", config=config)
    assert index.config.encoder == str(tmp_path / "model")
    index.rebuild(config=config)
    assert index.config.encoder == str(tmp_path / "model")
