"""Small data sets written by hand, each in the layout in which the real one was released."""

import csv
import gzip
import io
import json
from pathlib import Path

import zstandard


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="")


def write_json(path: Path, value: object) -> None:
    write(path, json.dumps(value, ensure_ascii=False))


def write_lines(path: Path, lines: list) -> None:
    """JSON lines, compressed as the name says."""
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    elif path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)


def tabfact(folder: Path) -> Path:
    write(folder / "data/all_csv/1-1.html.csv", "year#winner#points\n1990#ann\x85lee#3\n1991#bob#\n1992#cy#7\n")
    write(folder / "data/all_csv/1-2.html.csv", "a#b\nc#d\n")
    write(folder / "data/all_csv/2-1.html.csv", "x#y\n1#2\n3\n")
    write_json(
        folder / "collected_data/r1_training_all.json",
        {"1-1.html.csv": [["ann lee won in 1990", "bob won in 1992"], [1, 0], "the cup"]},
    )
    write_json(
        folder / "collected_data/r2_training_all.json",
        {"1-1.html.csv": [["cy has most points"], [1], "the cup"], "1-2.html.csv": [["c is d"], [0], "letters"]},
    )
    write_json(
        folder / "data/table_to_page.json", {"2-1.html.csv": ["Numbers", "http://x"], "1-1.html.csv": ["No", ""]}
    )
    return folder


def tabfact_tokenized(folder: Path) -> Path:
    write(folder / "data/all_csv/1-1.html.csv", "year#winner\n1990#ann\n")
    statement = "in #1990;1,0# the #cup;-1,-1# go to #ann;1,1#"
    write_json(folder / "tokenized_data/full_cleaned.json", {"1-1.html.csv": [[statement], [1], ["IN ENT"], "cup"]})
    # A part of the same statements.
    write_json(folder / "tokenized_data/train_examples.json", {"1-1.html.csv": [[statement], [1], "cup"]})
    return folder


def wtq(folder: Path) -> Path:
    table = '"Rank","Cyclist","Points\nUCI"\n"1","Al \\"Bala\\" Val (ESP)","40"\n"2","back\\\\slash, and comma",""\n'
    write(folder / "csv/203-csv/733.csv", table)
    write(folder / "csv/204-csv/1.csv", '"a","b"\n"1","2"\n')
    write(folder / "page/203-page/733.json", json.dumps({"title": "2008 Clásica", "url": "http://x", "tableIndex": 0}))
    header = "id\tutterance\tcontext\ttargetValue\n"
    first = "nu-0\twhich line\\n or a\\pb?\tcsv/203-csv/733.csv\tItaly\n"
    second = "nu-1\twho rode?\tcsv/203-csv/733.csv\tone|t\\pwo|a\\\\b\n"
    write(folder / "data/training.tsv", header + first + second)
    write(folder / "data/random-split-1-train.tsv", header + first)
    write(folder / "data/training.examples", "(example (id nu-0))\n")
    return folder


def sqa(folder: Path) -> Path:
    write(folder / "table_csv/203_733.csv", 'Rank,Cyclist,Points\n1,"Val, Al ""Bala""",40\n2,Reb,25\n')
    lines = [
        ["nt-7", 0, 1, "and of spain?", "table_csv/203_733.csv", "['(0, 1)']", "['Val, Al \"Bala\"']"],
        ["nt-7", 0, 0, "who\trode?", "table_csv/203_733.csv", "['(0, 1)', '(1, 1)']", "['Val, Al \"Bala\"', 'Reb']"],
        ["nt-7", 1, 0, "points?", "table_csv/203_733.csv", "['(0, 2)']", "['40']"],
    ]
    columns = ["id", "annotator", "position", "question", "table_file", "answer_coordinates", "answer_text"]
    for name, some in (("train.tsv", lines), ("random-split-1-train.tsv", lines[:1])):
        text = io.StringIO()
        csv.writer(text, delimiter="\t", lineterminator="\n").writerows([columns, *some])
        write(folder / name, text.getvalue())
    return folder


def hybridqa(folder: Path) -> Path:
    table = {
        "url": "http://x",
        "title": "Lakes",
        "header": [["Lake", []], ["Area", []]],
        "data": [[["Garda", ["/wiki/Lake_Garda"]], ["370", []]], [["Como", []], ["146", []]]],
        "section_title": "Italy",
        "uid": "Lakes_0",
    }
    write_json(folder / "WikiTables-WithLinks/tables_tok/Lakes_0.json", table)
    write_json(folder / "WikiTables-WithLinks/tables_tok/Lakes_1.json", table | {"section_title": ""})
    dev = {"question_id": "d1", "question": "Which is larger ?", "table_id": "Lakes_0", "answer-text": "Garda"}
    write_json(folder / "released_data/dev.json", [dev])
    write_json(
        folder / "released_data/dev.traced.json",
        [dev | {"answer-node": [["Garda", [0, 0], "/wiki/Lake_Garda", "table"]]}],
    )
    test = {"question_id": "t1", "question": "Who swims in Como ?", "table_id": "Lakes_0"}
    write_json(folder / "released_data/test.json", [test])
    write_json(folder / "released_data/dev_reference.json", {"reference": {}})
    return folder


def tatqa(folder: Path) -> Path:
    def context(answers: bool) -> dict:
        asked = [
            {"uid": "q1", "order": 1, "question": "Sales in 2019?", "answer": ["$1,496.5"], "answer_from": "table"},
            {"uid": "q2", "order": 2, "question": "The change?", "answer": -12.6, "answer_from": "table-text"},
        ]
        if not answers:
            asked = [{key: one[key] for key in ("uid", "order", "question")} for one in asked]
        rows = [["", "2019", "2018"], ["Sales", "$1,496.5", "$1,202.9"], ["Other", "44.1", "56.7"]]
        return {"table": {"uid": "t-1", "table": rows}, "paragraphs": [], "questions": asked}

    write_json(folder / "dataset_raw/tatqa_dataset_test.json", [context(False)])
    write_json(folder / "dataset_raw/tatqa_dataset_test_gold.json", [context(True)])
    return folder


def one_shape(folder: Path, tables: list, queries: list, ending: str = ".zst") -> Path:
    write_lines(folder / f"tables.jsonl{ending}", tables)
    write_lines(folder / f"queries.jsonl{ending}", queries)
    return folder
