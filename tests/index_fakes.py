"""An encoder that costs nothing, and small corpora: what the tests of the whole index share."""

import hashlib
import random
import re
import zlib
from functools import cache

import torch

from gtr_gpu.config import Config
from gtr_gpu.features import structural
from gtr_gpu.features.encoding_cache import KEY_BYTES
from gtr_gpu.features.semantic import EncodedTables, Encoder
from gtr_gpu.tables import Table

DIMENSION = 24
WORDS = [
    first + second + third
    for first in ("ba", "ke", "li", "mo", "nu", "ra", "so", "ti")
    for second in ("da", "fe", "gi", "po", "su", "", "lana")
    for third in ("ln", "rk", "st", "va")
]


class FakeEncoder:
    """The mean of a fixed random vector for each word, of length 1; stands where `Encoder.load` would.

    Attributes:
        encoded: How many texts of tables went through it, those from the cache apart.
        fails_after: Raises `error` instead of encoding more tables than this.
    """

    def __init__(self, fingerprint="fake", fails_after=None, error=RuntimeError):
        self.name = "fake/encoder"
        self.fingerprint = fingerprint
        self.dimension = DIMENSION
        self.window = 256
        self.encoded = 0
        self.fails_after = fails_after
        self.error = error

    def encode_tables(self, texts, cache=None, stage=None):
        joined = [text.joined() for text in texts]
        keys = [hashlib.blake2b((self.fingerprint + text).encode(), digest_size=KEY_BYTES).digest() for text in joined]
        known = cache.lookup(keys)[0].tolist() if cache is not None else [False] * len(keys)
        vectors = torch.empty(len(texts), DIMENSION)
        for row, text in enumerate(joined):
            if known[row]:
                vectors[row] = cache.lookup([keys[row]])[1][0]
                continue
            if self.fails_after is not None and self.encoded >= self.fails_after:
                raise self.error("the encoder was told to fail")
            vectors[row] = text_vector(text)
            self.encoded += 1
            if cache is not None:
                cache.store([keys[row]], vectors[row : row + 1])
        if stage:
            stage.advance(len(texts))
        nothing = torch.zeros(len(texts), dtype=torch.int64)
        return EncodedTables(vectors, nothing, nothing, nothing.bool())

    def encode_queries(self, queries):
        cut = torch.tensor([len(query.split()) > self.window for query in queries], dtype=torch.bool)
        return torch.stack([text_vector(query) for query in queries]) if queries else torch.empty(0, DIMENSION), cut


@cache
def word_vector(word):
    return torch.randn(DIMENSION, generator=torch.Generator().manual_seed(zlib.crc32(word.encode("utf-8", "replace"))))


def text_vector(text):
    words = re.findall(r"\w+", text.lower()) or ["nothing"]
    vectors = torch.stack([word_vector(word) for word in words[:256]])
    return torch.nn.functional.normalize(vectors.double().mean(0), dim=0).float()


def install(monkeypatch, encoder=None):
    """Makes every index load this encoder, and each spaCy pipeline once."""
    encoder = encoder or FakeEncoder()
    if not hasattr(structural.load_pipeline, "cache_clear"):
        monkeypatch.setattr(structural, "load_pipeline", cache(structural.load_pipeline))
    monkeypatch.setattr(Encoder, "load", classmethod(lambda *_: encoder))
    return encoder


def fast_config(**knobs):
    """Knobs of an index that is built in a moment."""
    return Config(**{"spacy_model": "blank:en", "n_clusters": 4, "n_typical": 5, **knobs})


def make_table(number, seed=0, version=0):
    """One of a family of three tables that share a topic, column names and some keys; each version has other words."""
    family = random.Random(f"{seed}/{version}/{number // 3}")
    topic, names, keys = family.sample(WORDS, 4), family.sample(WORDS, 4), family.sample(WORDS, 6)
    own = random.Random(f"{seed}/{version}/{number}")
    extra = own.sample(WORDS, own.randint(2, 6))
    rows = [
        [key, str(own.randrange(3000)), own.choice(WORDS), own.choice(WORDS)] for key in own.sample(keys, 3) + extra[:1]
    ]
    return Table(f"t{number}", " ".join([*topic, *extra[1:]]), names, rows, source=f"made/{number}.csv")


def make_tables(n, seed=0):
    """A corpus of n tables in families of three."""
    return [make_table(number, seed) for number in range(n)]


def make_queries(tables, n, seed=0):
    """Questions, each of words of one table's caption and cells."""
    rng = random.Random(f"queries/{seed}")
    chosen = rng.sample(tables, n)
    return [
        " ".join(["which", *rng.sample(table.caption.split(), 3), "has", rng.choice(table.rows)[0]]) for table in chosen
    ]


def same_results(found, expected, names=None, tolerance=1e-5):
    """Asserts that two results have the same scores, and the same tables wherever neighbouring scores differ by more.

    Args:
        found: A result.
        expected: Another one, maybe of an index that numbers its tables otherwise.
        names: For each id in `expected` the id in `found`; the same by default.
        tolerance: The largest difference of scores.
    """
    assert found.scores.shape == expected.scores.shape
    for row in range(len(expected)):
        torch.testing.assert_close(found.scores[row], expected.scores[row], rtol=0, atol=tolerance)
        wanted = [names[name] if names else name for name in expected.table_ids[row]]
        assert len(found.table_ids[row]) == len(wanted)
        scores = expected.scores[row].tolist()
        start = 0
        for place in range(1, len(wanted) + 1):
            # Tables whose scores are nearer to each other than the tolerance may come in any order.
            if place == len(wanted) or scores[place - 1] - scores[place] > 2 * tolerance:
                group, other = set(found.table_ids[row][start:place]), set(wanted[start:place])
                assert group == other, (row, start, group, other)
                start = place
