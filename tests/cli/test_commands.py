"""The commands other than `search`, over an index that answers as told."""

import json
import sys
from types import ModuleType

import pytest

from gtr_gpu.cli import doctor
from gtr_gpu.config import KNOBS
from gtr_gpu.errors import GTRError
from gtr_gpu.ops import native
from gtr_gpu.storage import IndexFolder, Manifest


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "medals.csv"
    path.write_text("nation,gold\nNorway,2\nKenya,3\n")
    return path


def test_index_passes_all_options_on(gtr, fake, source, tmp_path):
    out = tmp_path / "o"
    options = ["--preset", "paper", "--set", "damping=0.5", "--seed", 3, "--encoder", "some/encoder"]
    more = ["--device", "cpu", "--precision", "float32", "--overwrite", "--quiet"]
    status, _, err = gtr("index", source, "--out", out, *options, *more)
    assert (status, err) == (0, "")
    built = fake.built
    assert [table.header for table in built["tables"]] == [["nation", "gold"]]
    assert (built["path"], built["seed"], built["device"], built["precision"]) == (out, 3, "cpu", "float32")
    assert built["overwrite"] is True
    config = built["config"]
    assert (config.damping, config.n_clusters, config.encoder) == (0.5, 10, "some/encoder")


def test_index_says_what_it_did_and_what_to_type_next(gtr, fake, source, tmp_path):
    out = tmp_path / "my index"
    status, text, err = gtr("index", source, "--out", out)
    assert status == 0
    assert "1 from 1 file\n" in text
    assert "2 kept" in text
    assert "left out     20 rows of 1 table beyond the encoder's window, read only as words\n" in text
    assert "caption" not in text, "a count of zero is no news"
    assert "encode 0." in text
    assert " GB at most" in text
    assert text.splitlines()[-1] == f"""Ask it: gtr search '{out}' "your question\""""
    assert "encode: 1 in 0." in err, "progress as plain lines, since stderr is no terminal"


def test_index_json_is_one_object_and_no_progress(gtr, fake, source, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing more")
    status, text, err = gtr("index", source, tmp_path / "broken.parquet", "--out", tmp_path / "o", "--json")
    assert (status, err) == (0, "")
    summary = json.loads(text)
    assert (summary["tables"], summary["rows"], summary["rows_kept"]) == (1, 2, 2)
    assert summary["left_out"]["tables_beyond_window"] == 1
    assert [failure["source"].endswith("broken.parquet") for failure in summary["failed"]] == [True]
    assert summary["seconds"].keys() == {"encode"}
    assert summary["peak_memory_bytes"] > 10_000_000


def test_index_names_files_that_could_not_be_read(gtr, fake, source, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing more")
    status, text, _ = gtr("index", tmp_path, "--out", tmp_path / "o")
    assert status == 0
    assert [line for line in text.splitlines() if line.startswith("unread") and "broken.parquet" in line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--limit", "0"], "--limit must be at least 1, got 0"),
        (["--preset", "fast"], "preset must be one of default, paper, got 'fast'"),
        (["--set", "row_limit=0"], "row_limit must be a whole number of at least 1, got 0"),
        (["--precision", "fp8"], "'fp8' is not one of"),
        (["--seed", "x"], "'--seed'"),
        (["--seed", "-1"], "--seed must be a whole number from 0"),
        (["--encoder", ""], "--encoder is empty; give a name on the hub or a folder"),
        (["--out", ""], "'--out': it is empty; give a path, or . for the current folder"),
    ],
)
def test_index_refuses_before_it_loads(gtr, fake, source, tmp_path, words, expected):
    fake.error = AssertionError("loaded before the check")
    status, out, err = gtr("index", source, "--out", tmp_path / "o", *words)
    assert (status, out) == (2, "")
    assert expected in err
    assert not (tmp_path / "o").exists()


def test_index_refuses_a_place_that_is_taken(gtr, fake, source, folder):
    status, _, err = gtr("index", source, "--out", folder)
    assert status == 2
    assert "already holds an index" in err
    assert "--overwrite" in err
    assert gtr("index", source, "--out", folder, "--overwrite")[0] == 0
    assert "is a file" in gtr("index", source, "--out", source, "--overwrite")[2]
    assert "there is no file or folder" in gtr("index", source / "x", "--out", folder)[2]


def test_index_refuses_in_the_words_of_the_storage(gtr, fake, source, folder):
    for place in (folder, source):
        if place == folder:
            (folder / "manifest.json").write_bytes(Manifest().to_bytes())
        with pytest.raises(GTRError) as refused, IndexFolder(place).writer(create=True):
            pass
        assert gtr("index", source, "--out", place)[2] == f"gtr: {refused.value}\n"


def test_a_link_that_leads_nowhere_is_a_file_that_cannot_be_read(gtr, fake, source, folder, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to("nowhere.csv")
    for words in (["index", link, source, "--out", tmp_path / "o"], ["add", folder, link, source]):
        status, out, _ = gtr(*words, "--quiet")
        assert status == 0
        assert f"unread       {link}: no such file or directory\n" in out
    status, _, err = gtr("index", link, "--out", tmp_path / "p", "--quiet")
    assert (status, "no such file or directory" in err) == (2, True)


def test_no_readable_table_tells_why(gtr, fake, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(bytes(range(256)) * 20)
    status, _, err = gtr("index", path, "--out", tmp_path / "o", "--quiet")
    assert status == 2
    assert "binary" in err
    assert err.count("\n") == 1


def test_index_names_what_was_passed_over(gtr, fake, source, tmp_path):
    for name in ("a.pdf", "b.pdf", "c.pdf", ".hidden"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "page.html").write_text("<table><tr><td>menu</table>" * 2)
    lines = gtr("index", tmp_path, "--out", tmp_path / "o", "--quiet")[1].splitlines()
    skipped = [line.removeprefix("skipped").strip() for line in lines if line.startswith("skipped")]
    names = [str(tmp_path / name) for name in (".hidden", "a.pdf", "b.pdf")]
    assert skipped == [f"3 .pdf, 1 hidden: {', '.join(names)} and 1 more", "2 HTML tables that only lay out a page"]
    summary = json.loads(gtr("index", tmp_path, "--out", tmp_path / "o", "--json")[1])
    assert (summary["layout_tables"], len(summary["skipped_examples"])) == (2, 4)


def test_what_is_left_out_is_told_in_the_same_words(gtr, fake, folder, source, tmp_path, monkeypatch):
    counts = {"tables": 9, "rows": 99, "rows_beyond_limit": 7, "tables_beyond_limit": 2, "leads_beyond_window": 1}
    counts |= {"headers_beyond_window": 1, "names_beyond_window": 1}
    monkeypatch.setattr(fake, "left_out", counts)
    texts = [
        "7 rows of 2 tables beyond row_limit or cell_limit, counted only",
        "1 column name of 1 table beyond the encoder's window, read only as words",
        "the end of 1 caption or description beyond the encoder's window, read only as words",
    ]
    expected = [f"left out     {text}" for text in texts]
    for words in (["index", source, "--out", tmp_path / "o"], ["add", folder, source]):
        lines = gtr(*words, "--quiet")[1].splitlines()
        assert [line for line in lines if line.startswith("left out")] == expected
    monkeypatch.setattr(fake, "info", lambda self: {"summary": {"left_out": counts}})
    out = gtr("info", folder)[1]
    assert [line.strip() for line in out.splitlines()] == [
        "summary",
        "read      9 tables, 99 rows",
        f"left out  {texts[0]}",
        *texts[1:],
    ]


def test_one_is_no_plural(gtr, fake, folder, source):
    fake.corpus = fake.corpus[:1]
    assert "the index holds 1 table\n" in gtr("add", folder, source, "--quiet")[1]
    assert gtr("rebuild", folder, "--quiet")[1].startswith("rebuilt the index of 1 table in ")
    assert gtr("search", folder, "q", "-k", 3)[2] == "note: -k is 3, but the index holds 1 table\n"


def test_add(gtr, fake, folder, source):
    status, out, err = gtr("add", folder, source, "--quiet")
    assert (status, err) == (0, "note: a rebuild would pay\n")
    assert out.startswith("added 1, replaced 1; the index holds 3 tables\n")
    shown = json.loads(gtr("add", folder, source, "--json")[1])
    assert (shown["added"], shown["replaced"], shown["tables"], shown["failed"]) == (1, 1, 3, [])


def test_remove(gtr, fake, folder):
    assert gtr("remove", folder, "--id", "a.csv", "--id", "c.csv")[1].startswith("removed 2;")
    status, out, err = gtr("remove", folder, "--id", "a.csv", "--id", "zzz")
    assert (status, out) == (2, "")
    assert "'zzz'" in err
    assert "name each table with --id" in gtr("remove", folder)[2]


def test_rebuild(gtr, fake, folder):
    status, out, _ = gtr("rebuild", folder, "--quiet")
    assert status == 0
    assert out.startswith("rebuilt the index of 3 tables in ")


def test_info(gtr, fake, folder):
    status, out, _ = gtr("info", folder)
    assert status == 0
    assert out.splitlines() == [
        "tables  3",
        "search",
        "  how   flat",
        "config  the default",
    ]
    assert json.loads(gtr("info", folder, "--json")[1])["tables"] == 3


def test_info_lists_all_knobs(gtr):
    out = gtr("info", "--knobs")[1]
    for name, knob in KNOBS.items():
        assert f"  {name}" in out
        assert knob.text in out
    assert "damping (α) = 0.6" in out
    assert "0 to 0.999" in out
    listed = json.loads(gtr("info", "--knobs", "--json")[1])
    assert [item["name"] for item in listed] == list(KNOBS)


def test_verify(gtr, folder, monkeypatch):
    problems = []
    module = ModuleType("gtr_gpu.storage")
    module.IndexFolder = lambda path: type("Folder", (), {"verify": lambda self, progress: problems})()
    monkeypatch.setitem(sys.modules, "gtr_gpu.storage", module)
    assert gtr("verify", folder)[0] == 0
    problems.append("x.arrow is damaged")
    status, out, err = gtr("verify", folder)
    assert (status, out) == (1, "")
    assert err.startswith("gtr: x.arrow is damaged\n")
    assert json.loads(gtr("verify", folder, "--json")[1]) == {
        "index": str(folder),
        "sound": False,
        "problems": ["x.arrow is damaged"],
    }


def test_doctor(gtr, monkeypatch):
    monkeypatch.setattr(doctor, "_OPTIONAL", (("nosuch", "nosuch_module", "nothing", "readers"),))
    status, out, _ = gtr("doctor")
    assert status == 0
    assert "absent (nothing); `pip install 'gtr-gpu[readers]'` brings it" in out
    assert "threads of torch" in out
    assert "pagerank" in out
    assert ".csv .tsv" in out
    monkeypatch.setitem(doctor._READERS, "html", ("nosuch_module", "all"))
    assert "html" in gtr("doctor")[1].partition("nosuch_module; `pip install 'gtr-gpu[readers]'` brings it")[0]
    found = json.loads(gtr("doctor", "--json")[1])
    assert {finding["group"] for finding in found} == {
        "versions",
        "devices",
        "optional",
        "formats",
        "operations",
        "folders",
    }


def test_doctor_tells_what_serves_each_operation_and_what_would_be_faster(gtr, monkeypatch):
    def walk():
        lines = gtr("doctor")[1].splitlines()
        return next(line for line in lines if "personalized_pagerank" in line)

    if native.extension() is not None:
        assert "✓ personalized_pagerank" in walk()
        assert "compiled kernels" in walk()
    monkeypatch.setattr(native, "extension", lambda: None)
    assert "· personalized_pagerank" in walk()
    assert "plain torch: gtr-gpu was installed without its compiled kernels; `pip install" in walk()


def test_doctor_fails_where_something_needed_is_missing(gtr, monkeypatch):
    monkeypatch.setattr(doctor, "_BASE", ("nosuch-package",))
    status, out, _ = gtr("doctor")
    assert status == 1
    assert "✗ nosuch-package" in out


def test_demo_without_its_tables_is_one_sentence(gtr, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, _, err = gtr("demo")
    assert status == 2
    assert "pip install 'gtr-gpu[demo,offline]'" in err
