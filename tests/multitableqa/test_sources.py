"""Every layout is read as its authors wrote it, and what is wrong with a source is one clear sentence."""

from pathlib import Path

import multitableqa_layouts as layouts
import pytest

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.sources import KNOWN, Source, read_source


def _tables(source: Source) -> dict[str, SourceTable]:
    return {table.source_id: table for table in source.tables}


def test_tabfact(tmp_path: Path):
    source = read_source("tabfact", layouts.tabfact(tmp_path))
    assert source.layout == "TabFact's release"
    assert _tables(source) == {
        # The odd line end inside a cell is one, and no row is lost by it.
        "1-1.html.csv": SourceTable(
            "1-1.html.csv",
            "the cup",
            ["year", "winner", "points"],
            [["1990", "ann\nlee", "3"], ["1991", "bob", ""], ["1992", "cy", "7"]],
            "tabfact",
        ),
        "1-2.html.csv": SourceTable("1-2.html.csv", "letters", ["a", "b"], [["c", "d"]], "tabfact"),
        "2-1.html.csv": SourceTable("2-1.html.csv", "Numbers", ["x", "y"], [["1", "2"], ["3", ""]], "tabfact"),
    }
    assert [(one.question_id, one.text, one.answers, one.kind) for one in source.questions] == [
        ("1-1.html.csv-0", "ann lee won in 1990", ("1",), "statement"),
        ("1-1.html.csv-1", "bob won in 1992", ("0",), "statement"),
        ("1-1.html.csv-2", "cy has most points", ("1",), "statement"),
        ("1-2.html.csv-0", "c is d", ("0",), "statement"),
    ]


def test_tabfact_tokenized(tmp_path: Path):
    source = read_source("tabfact", layouts.tabfact_tokenized(tmp_path))
    assert source.tables[0].caption == "cup"
    assert [one.text for one in source.questions] == ["in 1990 the cup go to ann"]


def test_wtq(tmp_path: Path):
    source = read_source("wtq", layouts.wtq(tmp_path))
    assert source.tables[0] == SourceTable(
        "csv/203-csv/733.csv",
        "2008 Clásica",
        ["Rank", "Cyclist", "Points\nUCI"],
        [["1", 'Al "Bala" Val (ESP)', "40"], ["2", "back\\slash, and comma", ""]],
        "wtq",
    )
    assert source.tables[1].caption == ""
    table_id = "csv/203-csv/733.csv"
    assert source.questions == [
        SourceQuestion("nu-0", "which line\n or a|b?", table_id, ("Italy",), dataset="wtq"),
        SourceQuestion("nu-1", "who rode?", table_id, ("one", "t|wo", "a\\b"), dataset="wtq"),
    ]


def test_sqa(tmp_path: Path):
    source = read_source("sqa", layouts.sqa(tmp_path))
    name = "table_csv/203_733.csv"
    rows = [["1", 'Val, Al "Bala"', "40"], ["2", "Reb", "25"]]
    assert source.tables == [
        SourceTable(name, "", ["Rank", "Cyclist", "Points"], rows, "sqa", same_as="csv/203-csv/733.csv")
    ]
    first, second, third = source.questions
    assert first == SourceQuestion(
        "nt-7_0_0",
        "who rode?",
        name,
        ('Val, Al "Bala"', "Reb"),
        ((0, 1), (1, 1)),
        sequence="nt-7_0",
        position=0,
        dataset="sqa",
    )
    assert (second.text, second.history, second.position) == ("and of spain?", ("who rode?",), 1)
    assert (third.sequence, third.history) == ("nt-7_1", ())


def test_hybridqa(tmp_path: Path):
    source = read_source("hybridqa", layouts.hybridqa(tmp_path))
    rows = [["Garda", "370"], ["Como", "146"]]
    assert source.tables == [
        SourceTable("Lakes_0", "Lakes - Italy", ["Lake", "Area"], rows, "hybridqa"),
        SourceTable("Lakes_1", "Lakes", ["Lake", "Area"], rows, "hybridqa"),
    ]
    assert source.questions == [
        SourceQuestion("d1", "Which is larger ?", "Lakes_0", ("Garda",), ((0, 0),), dataset="hybridqa"),
        SourceQuestion("t1", "Who swims in Como ?", "Lakes_0", (), dataset="hybridqa"),
    ]


def test_hybridqa_in_the_folders_of_ottqa(tmp_path: Path):
    layouts.hybridqa(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "WikiTables-WithLinks" / "tables_tok").rename(tmp_path / "data" / "traindev_tables_tok")
    assert len(read_source("hybridqa", tmp_path).tables) == 2


def test_tatqa(tmp_path: Path):
    source = read_source("tatqa", layouts.tatqa(tmp_path))
    rows = [["Sales", "$1,496.5", "$1,202.9"], ["Other", "44.1", "56.7"]]
    assert source.tables == [SourceTable("t-1", "", ["", "2019", "2018"], rows, "tatqa")]
    assert source.questions == [
        SourceQuestion("q1", "Sales in 2019?", "t-1", ("$1,496.5",), evidence_from="table", dataset="tatqa"),
        SourceQuestion("q2", "The change?", "t-1", ("-12.6",), evidence_from="table-text", dataset="tatqa"),
    ]
    assert read_source("tatqa", tmp_path / "dataset_raw").tables == source.tables


@pytest.mark.parametrize("ending", ["", ".zst", ".gz"])
def test_one_shape(tmp_path: Path, ending: str):
    table = {"table_id": "t", "caption": None, "header": ["a", "b"], "rows": [["1", 2], ["3"]], "wtq_table_id": "w"}
    queries = [
        {"query_id": "s_0", "query": "first?", "table_id": "t", "answer": ["1"], "history": []},
        {
            "query_id": "s_1",
            "query": "then?",
            "table_id": "t",
            "answer": None,
            "history": ["first?"],
            "answer_coordinates": [[0, 1]],
            "answer_from": "table",
        },
    ]
    source = read_source("anything", layouts.one_shape(tmp_path, [table], queries, ending))
    assert source.tables == [SourceTable("t", "", ["a", "b"], [["1", "2"], ["3", ""]], "anything", "w")]
    assert source.questions == [
        SourceQuestion("s_0", "first?", "t", ("1",), sequence="s", dataset="anything"),
        SourceQuestion(
            "s_1", "then?", "t", (), ((0, 1),), ("first?",), "s", 1, evidence_from="table", dataset="anything"
        ),
    ]


def test_labels_of_one_and_zero_make_statements(tmp_path: Path):
    table = {"table_id": "t", "header": ["a"], "rows": [["1"]]}
    asked = [{"query_id": n, "query": "so", "table_id": "t", "answer": a} for n, a in enumerate([1, 0, None])]
    source = read_source("facts", layouts.one_shape(tmp_path / "facts", [table], asked))
    assert [(one.kind, one.answers) for one in source.questions] == [
        ("statement", ("1",)),
        ("statement", ("0",)),
        ("statement", ()),
    ]
    asked[0]["answer"] = 7
    source = read_source("counts", layouts.one_shape(tmp_path / "counts", [table], asked))
    assert {one.kind for one in source.questions} == {"question"}


def test_a_folder_in_no_layout_says_what_was_looked_for(tmp_path: Path):
    (tmp_path / "some.txt").write_text("")
    for name in KNOWN:
        with pytest.raises(GTRError, match=rf"source {name} is not in .*tables.jsonl and queries.jsonl.*, nor .*\*"):
            read_source(name, tmp_path)
    with pytest.raises(GTRError, match="is no folder; check the path"):
        read_source("wtq", tmp_path / "nowhere")
    with pytest.raises(GTRError, match=r"it looks like wtq: give it as --source wtq="):
        read_source("tabfact", layouts.wtq(tmp_path))
    # A layout of its own is read for the known names alone.
    with pytest.raises(GTRError, match="the source mine is not in"):
        read_source("mine", tmp_path)


def _damage(folder: Path, name: str, content: str) -> Path:
    layouts.write(folder / name, content)
    return folder


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("tabfact", "collected_data/r1_training_all.json", "{", "it is not valid JSON"),
        ("tabfact", "collected_data/r1_training_all.json", '{"1-1.html.csv": 3}', "it is not in the release's layout"),
        (
            "tabfact",
            "collected_data/r1_training_all.json",
            '{"9.csv": [["s"], [1], "c"]}',
            "no table '9.csv', which its",
        ),
        ("wtq", "data/training.tsv", "id\tquestion\n", "its first line must name the columns id, utterance"),
        ("wtq", "data/training.tsv", "id\tutterance\tcontext\ttargetValue\nnu-1\n", "not in the release's layout"),
        ("wtq", "csv/203-csv/733.csv", "", "it is not in the release's layout"),
        ("sqa", "train.tsv", "id\tquestion\n", "its first line must name the columns"),
        ("hybridqa", "released_data/test.json", '[{"question": "q"}]', "there is no 'question_id'"),
        ("hybridqa", "WikiTables-WithLinks/tables_tok/Lakes_0.json", "[]", "it is not in the release's layout"),
        ("tatqa", "dataset_raw/tatqa_dataset_test_gold.json", '[{"table": {}}]', "there is no 'uid'"),
    ],
)
def test_damage_is_told_with_the_file(tmp_path: Path, name: str, file: str, content: str, message: str):
    folder = _damage(getattr(layouts, name)(tmp_path), file, content)
    with pytest.raises(GTRError) as error:
        read_source(name, folder)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "query", "message"),
    [
        ({"header": "a"}, {}, "tables.jsonl.zst:1: header must be a list of names, got str"),
        ({"rows": ["a"]}, {}, "tables.jsonl.zst:1: rows must be a list of lists"),
        ({"table_id": " "}, {}, "tables.jsonl.zst:1: table_id must be a text"),
        ({}, {"query": ""}, "queries.jsonl.zst:1: query must be a text"),
        ({}, {"history": "q"}, "queries.jsonl.zst:1: history must be a list"),
        ({}, {"answer_coordinates": [[1]]}, "answer_coordinates must be pairs"),
        ({}, {"table_id": "u"}, "the source mine has no table 'u', which its question 'q' is on"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(tmp_path: Path, table: dict, query: dict, message: str):
    tables = [{"table_id": "t", "caption": "", "header": ["a"], "rows": [["1"]]} | table]
    queries = [{"query_id": "q", "query": "what?", "table_id": "t", "answer": []} | query]
    with pytest.raises(GTRError) as error:
        read_source("mine", layouts.one_shape(tmp_path, tables, queries))
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["tables.jsonl", "queries.jsonl.gz"])
def test_one_file_with_two_endings_is_told(tmp_path: Path, name: str):
    table = {"table_id": "t", "header": ["a"], "rows": [["1"]]}
    query = {"query_id": "q", "query": "what?", "table_id": "t", "answer": []}
    layouts.one_shape(tmp_path, [table], [query])
    layouts.write_lines(tmp_path / name, [table])
    stem = name.removesuffix(".gz")
    with pytest.raises(GTRError, match=rf"holds {stem}\S* and {stem}\S*, which may differ; keep the one that is up"):
        read_source("mine", tmp_path)


def test_empty_truncated_and_doubled_sources_are_told(tmp_path: Path):
    table = {"table_id": "t", "header": ["a"], "rows": [["1"]]}
    query = {"query_id": "q", "query": "what?", "table_id": "t", "answer": []}
    with pytest.raises(GTRError, match="the source mine has no table"):
        read_source("mine", layouts.one_shape(tmp_path, [], []))
    with pytest.raises(
        GTRError, match="the source mine has two tables of the name 't'; give each a name of its own, or"
    ):
        read_source("mine", layouts.one_shape(tmp_path, [table, table], [query]))
    path = tmp_path / "tables.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(GTRError, match=r"tables.jsonl.zst: it is truncated"):
        read_source("mine", tmp_path)
    path.write_bytes(b"\xff{}")
    with pytest.raises(GTRError, match=r"tables.jsonl.zst:1: it is not valid UTF-8"):
        read_source("mine", tmp_path)
