"""No method reads a label: ids, sources, metadata and the order of the tables change nothing that is found."""

import json
import random
from dataclasses import replace

import pytest
import torch
from index_fakes import make_queries, make_tables, same_results

from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.index import GTRIndex
from gtr_gpu.tables.report import ReadReport
from gtr_gpu.tables.sources import read_sources

pytestmark = pytest.mark.usefixtures("fake_encoder")

N_REAL = 400
WAYS = {
    "default": Config(),
    "clusters": Config(coarse="clusters", n_probe=2, modalities=MODALITIES, n_seeds=20),
    "paper": Config.preset("paper"),
}


def config_of(way):
    return WAYS[way].override({"spacy_model": "blank:en"})


@pytest.fixture(scope="module", params=["made", "wtq", "tabfact", "tatqa"])
def tables(request):
    if request.param == "made":
        return make_tables(90)
    source = request.getfixturevalue("shared_data") / request.param / "tables.jsonl.zst"
    return list(read_sources([source], config=Config(), report=ReadReport(), limit=N_REAL))


@pytest.fixture(scope="module")
def queries(tables):
    described = [table for table in tables if len(table.caption.split()) >= 3 and table.rows]
    if len(described) >= 15:
        return make_queries(described, 15)
    rng = random.Random(0)
    return [" ".join(rng.choice(table.rows)[:3]) or "total" for table in tables[:15]]


def as_release(tables, path, poison=""):
    """Writes tables as the MultiTableQA release does, every other field being poisoned."""
    lines = []
    for number, table in enumerate(tables):
        fields = {
            "table_idx": f"{poison} {number}" if poison else table.table_id,
            "caption": table.caption,
            "table": {"header": table.header, "rows": table.rows},
        }
        if poison:
            fields |= {
                "source_table_idx": poison,
                "example_query": poison,
                "page": {"title": poison, "url": f"https://example.org/{poison}"},
                "split": poison,
                "answer": [poison],
                "source": poison,
                "context": poison,
                "metadata": {"query": poison},
            }
            fields = dict(reversed(fields.items()))
        lines.append(json.dumps(fields, ensure_ascii=False))
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_sources([path], config=Config(), report=ReadReport(), strict=True)


@pytest.mark.parametrize("way", WAYS)
def test_poisoned_fields_change_nothing(tables, queries, way, tmp_path):
    """The questions themselves stand in every field that isn't caption, header or rows."""
    (tmp_path / "corpora").mkdir()
    clean = GTRIndex.build(
        as_release(tables, tmp_path / "corpora" / "clean.jsonl"), tmp_path / "clean", config=config_of(way)
    )
    poisoned = GTRIndex.build(
        as_release(tables, tmp_path / "corpora" / f"{queries[0][:20].replace('/', ' ')}.jsonl", " ".join(queries)),
        tmp_path / "poisoned",
        config=config_of(way),
    )
    assert poisoned.table(3).metadata["example_query"] == " ".join(queries)
    assert queries[0] in poisoned.table_id(3)
    expected, found = clean.search(queries, 20, edges=True), poisoned.search(queries, 20, edges=True)
    assert torch.equal(found.ids, expected.ids) and torch.equal(found.scores, expected.scores)
    assert found.edges == expected.edges
    # All that is computed of the tables is the same, bit by bit.
    for role in ("features", "relations"):
        pair = [index._manifest.segments[0].files[role].checksum for index in (clean, poisoned)]
        assert pair[0] == pair[1], role
    assert clean._manifest.files["clusters"].checksum == poisoned._manifest.files["clusters"].checksum


@pytest.mark.parametrize("seed", [1, 2])
def test_another_shuffle_changes_nothing(tables, queries, seed, tmp_path):
    """Other ids, sources and metadata in another order: the same tables with the same scores."""
    first = GTRIndex.build(tables, tmp_path / "first", config=config_of("default"))
    order = random.Random(seed).sample(range(len(tables)), len(tables))
    names = {tables[place].table_id: f"id{number}" for number, place in enumerate(order)}
    shuffled = [
        replace(tables[place], table_id=f"id{number}", source="elsewhere", metadata={"example_query": queries[0]})
        for number, place in enumerate(order)
    ]
    second = GTRIndex.build(shuffled, tmp_path / "second", config=config_of("default"))
    expected = first.search(queries, len(tables))
    same_results(second.search(queries, len(tables)), expected, names)


def test_every_text_that_may_be_read_is_read(tmp_path):
    """The rule would hold for an index that reads nothing: caption, description, header and cells do count."""
    tables = make_tables(30)
    plain = GTRIndex.build(tables, tmp_path / "plain", config=config_of("default"))
    by_words = Config(personalization="lexical", damping=0.0)
    for number, change in enumerate(
        [
            {"caption": "zanzibar"},
            {"description": "zanzibar"},
            {"header": ["zanzibar", *tables[7].header[1:]]},
            {"rows": [["zanzibar", *tables[7].rows[0][1:]], *tables[7].rows[1:]]},
        ]
    ):
        changed = [*tables[:7], replace(tables[7], **change), *tables[8:]]
        index = GTRIndex.build(changed, tmp_path / str(number), config=config_of("default"))
        assert index.search(["zanzibar"], 1, config=by_words).table_ids == [["t7"]], change
        changed_rows = (semantic(index) != semantic(plain)).any(1)
        assert changed_rows.nonzero().flatten().tolist() == [7], change
    for fields in ({"table_id": "zanzibar"}, {"source": "zanzibar"}, {"metadata": {"example_query": "zanzibar"}}):
        changed = [*tables[:7], replace(tables[7], **fields), *tables[8:]]
        index = GTRIndex.build(changed, tmp_path / next(iter(fields)), config=config_of("default"))
        assert "zanzibar" not in index._snapshot.vocabulary, fields
        assert torch.equal(semantic(index), semantic(plain)), fields


def semantic(index):
    return index._snapshot.segments[0].semantic
