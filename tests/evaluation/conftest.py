import pytest

from gtr_gpu.evaluation.encodings import Encodings
from gtr_gpu.evaluation.methods.method import Resources
from gtr_gpu.progress import Silent


@pytest.fixture(autouse=True, scope="module")
def fast_presets():
    """Indexes of small corpora without a tagger, which takes seconds to load."""
    from gtr_gpu import config

    few = {"spacy_model": "blank:en", "kmeans_iterations": 25, "kmeans_starts": 2}
    with pytest.MonkeyPatch.context() as patch:
        for name, knobs in config.PRESETS.items():
            patch.setitem(config.PRESETS, name, knobs | few)
        yield


@pytest.fixture
def resources(tmp_path, fake_encoder):
    return Resources(Encodings(tmp_path / "encodings"), tmp_path / "indexes", Silent())
