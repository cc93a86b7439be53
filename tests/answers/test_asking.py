"""Questions to answers: search, prompts, a model that answers as told, resume."""

import json
import logging

import pytest
from answer_fakes import FakeModel
from index_fakes import fast_config

from gtr_gpu import GTRIndex
from gtr_gpu.answers import Answered, Unanswered, ask
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.model import Completion, ModelError
from gtr_gpu.prompts import PromptSettings, retrieval
from gtr_gpu.tables import Table

TABLES = [
    Table("medals.csv", "Medals of 2012", ["nation", "gold"], [["Norway", "21"], ["Sweden", "7"]]),
    Table("cities.csv", "Cities", ["city", "people"], [["Oslo", "700,000"], ["Bergen", "290,000"]]),
    Table("capitals.csv", "Capitals", ["nation", "city"], [["Norway", "Oslo"], ["Sweden", "Stockholm"]]),
    Table("rivers.csv", "Rivers", ["river", ""], [["Glomma", "Norway"], ["Göta", "Sweden"]]),
]
GOOD = "<reasoning>\n1. Table 1 has Oslo. Table 9 not.\n</reasoning>\n<answer>\nOslo\n</answer>"
SETTINGS = PromptSettings(prompt_tokens=2000)


@pytest.fixture(scope="module")
def index(fake_encoder, tmp_path_factory):
    with GTRIndex.build(TABLES, tmp_path_factory.mktemp("asking") / "index", config=fast_config()) as index:
        yield index


def reply(text=GOOD):
    return FakeModel(lambda prompt, number: text)


def all_of(index, questions, model, **options):
    return list(ask(index, questions, model, **{"settings": SETTINGS, "k": 3, **options}))


def test_an_answer_with_all_that_it_rests_on(index):
    (one,) = all_of(index, ["which city is the capital of norway"], reply())
    assert isinstance(one, Answered)
    assert (one.query_id, one.query, one.answer) == ("1", "which city is the capital of norway", "Oslo")
    assert one.reasoning == "1. Table 1 has Oslo. Table 9 not."
    assert [table.number for table in one.tables] == [1, 2, 3]
    assert [table.cited for table in one.tables] == [True, False, False]
    assert (one.tables[0].rows_shown, one.tables[0].rows) == (2, 2)
    assert one.unknown_tables == (9,)
    assert (one.model, one.finish_reason, one.seconds, one.raw, one.earlier) == ("fake", "stop", 0.25, GOOD, False)
    assert one.prompt_tokens > 50 and one.completion_tokens == len(GOOD.split())
    cited = one.tables[0].table_id
    for cell in one.cells:
        table = next(table for table in TABLES if table.table_id == cell.table_id)
        assert (cell.table, cell.table_id, cell.text) == (1, cited, "Oslo")
        assert table.rows[cell.row][table.header.index(cell.column)] == "Oslo"
    value = one.to_json()
    assert json.loads(json.dumps(value)) == value
    assert value["tables"][0] == {
        "number": 1,
        "table_id": cited,
        "caption": one.tables[0].caption,
        "cited": True,
        "rows_shown": 2,
        "rows": 2,
    }
    again = Answered.from_json(json.loads(json.dumps(value)))
    assert again.earlier and again.to_json() == value


def test_the_model_reads_what_a_prompt_says(index):
    model = reply()
    all_of(index, ["medals of norway"], model, max_new_tokens=77)
    (prompt,) = model.asked
    assert "<table1>Table 1: Medals of 2012" in prompt and "Question: medals of norway" in prompt
    assert model.limits == [77]


def test_settings_reach_prompts_and_answers(index):
    settings = PromptSettings(prompt_tokens=2000, table_format="csv", answer_kind="list", relations=False)
    model = reply('<answer>["Oslo", "Bergen"]</answer>')
    (one,) = all_of(index, ["cities"], model, settings=settings)
    assert one.answer == ("Oslo", "Bergen")
    assert one.to_json()["answer"] == ["Oslo", "Bergen"]
    assert "Graph-Related" not in model.asked[0] and "city,people" in model.asked[0]
    (one,) = all_of(index, ["x"], reply("Yes."), settings=PromptSettings(answer_kind="verification"))
    assert one.answer == "True"


def test_a_column_without_a_name_is_told_by_its_number(index):
    (one,) = all_of(index, ["rivers glomma"], reply("<answer>Glomma</answer> <reasoning>'Norway'</reasoning>"), k=1)
    assert [(cell.column, cell.text) for cell in one.cells] == [("river", "Glomma"), ("2", "Norway")]


def test_an_output_cut_at_the_limit_is_no_answer(index):
    model = FakeModel()
    model.complete = lambda prompts, n: (
        (i, Completion("It is Os", "length", 1, 2, 0.1)) for i, _ in enumerate(prompts)
    )
    (one,) = all_of(index, ["q"], model)
    assert (one.answer, one.finish_reason, one.raw) == (None, "length", "It is Os")


def test_questions_have_the_names_they_are_given(index):
    records = all_of(index, {7: "norway", "b": "sweden"}, reply())
    assert [record.query_id for record in records] == [7, "b"]
    assert [record.query for record in records] == ["norway", "sweden"]


def test_what_one_question_lacks_does_not_stop_the_others(index):
    model = FakeModel(lambda prompt, number: ModelError("the server is busy") if number == 1 else GOOD)
    records = all_of(index, ["norway", "sweden", "oslo"], model)
    assert [type(record) for record in records] == [Answered, Unanswered, Answered]
    assert records[1].to_json() == {"query_id": "2", "query": "sweden", "error": "the server is busy"}


def test_a_fatal_fault_comes_after_all_that_was_finished(index):
    model = FakeModel(lambda prompt, number: ModelError("wrong key", fatal=True) if number == 2 else GOOD)
    records = []
    with pytest.raises(ModelError, match="wrong key"):
        records.extend(ask(index, ["a", "b", "c", "d"], model, settings=SETTINGS))
    assert [record.query for record in records] == ["a", "b"]
    assert len(model.asked) == 3


def test_a_question_too_long_for_the_budget_fails_alone(index):
    model = reply()
    settings = PromptSettings(prompt_tokens=400)
    records = all_of(index, ["norway", "word " * 500, "sweden"], model, settings=settings)
    assert sorted(type(record).__name__ for record in records) == ["Answered", "Answered", "Unanswered"]
    (failed,) = (record for record in records if isinstance(record, Unanswered))
    assert "prompt_tokens must be at least" in failed.error
    assert len(model.asked) == 2
    (failed,) = all_of(index, ["word " * 500], model, settings=settings)
    assert isinstance(failed, Unanswered)


def test_a_question_that_finds_nothing_is_not_asked(index, monkeypatch):
    model = reply()
    found = index.search(["norway"], 2, edges=True)
    found.ids[:] = -1
    found.edges[0] = []
    monkeypatch.setattr(index, "search", lambda *given, **options: found)
    (one,) = all_of(index, ["norway"], model)
    assert (one.answer, one.tables, one.finish_reason, model.asked) == (None, (), "no tables", [])


def test_k_beyond_the_index_is_told(index):
    notes = []
    (one,) = all_of(index, ["norway"], reply(), k=50, note=notes.append)
    assert len(one.tables) == 4
    assert notes == ["k is 50, but the index holds 4 tables"]


def test_the_prompt_leaves_room_for_the_completion(index):
    notes = []
    model = FakeModel(window=500)
    (one,) = all_of(index, ["norway"], model, max_new_tokens=100, note=notes.append)
    assert one.prompt_tokens <= 400
    (note,) = notes
    assert note.startswith("prompts are kept to 400 tokens: fake takes 500 of prompt and completion together, and 100")
    with pytest.raises(GTRError, match="max_new_tokens must be below 500"):
        ask(index, ["norway"], model, max_new_tokens=500)
    assert not list(ask(index, [], FakeModel(window=9000), k=1, note=notes.append)) and len(notes) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"questions": "one text"}, "must be a list"),
        ({"questions": ["fine", " "]}, "the question '2' must hold at least one word"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(index, options, expected):
    model = reply()
    with pytest.raises(GTRError, match=expected):
        ask(index, options.pop("questions", ["q"]), model, **options)
    assert model.asked == []


def test_notes_of_the_search_are_told_once(index, monkeypatch, caplog):
    monkeypatch.setattr(retrieval, "_TOGETHER", 1)
    long = "norway " * (index.config.max_query_words + 1)
    with caplog.at_level(logging.WARNING, logger="gtr_gpu"):
        all_of(index, [long, long], reply(), settings=PromptSettings(prompt_tokens=9000))
    assert len(caplog.records) == 1


def test_prompts_are_made_as_the_model_takes_them(index):
    model = reply()
    asking = ask(index, [f"norway {n}" for n in range(100)], model, settings=SETTINGS)
    next(asking)
    assert len(model.asked) == 1
    asking.close()


def test_pieces_are_shown_as_they_come(index):
    shown = []
    all_of(index, ["norway"], reply(), show=shown.append)
    assert len(shown) > 5 and "".join(shown) == GOOD
    broken = FakeModel(lambda prompt, number: ModelError("half a stream"))
    assert all_of(index, ["a", "b"], broken, show=shown.append)[1].error == "half a stream"
    broken = FakeModel(lambda prompt, number: ModelError("wrong key", fatal=True))
    with pytest.raises(ModelError, match="wrong key"):
        all_of(index, ["a"], broken, show=shown.append)


# Resume


def test_a_second_run_asks_only_what_is_missing(index, tmp_path):
    out, notes = tmp_path / "a.jsonl", []
    first = reply()
    all_of(index, {n: f"norway {n}" for n in range(3)}, first, out=out)
    second = reply("<answer>Bergen</answer>")
    records = all_of(index, {n: f"norway {n}" for n in range(5)}, second, out=out, note=notes.append)
    assert len(second.asked) == 2
    assert [(record.query_id, record.answer, record.earlier) for record in records] == [
        *((n, "Oslo", True) for n in range(3)),
        *((n, "Bergen", False) for n in (3, 4)),
    ]
    assert notes == [f"3 of 5 were answered already in {out}"]
    assert all_of(index, {0: "norway 0"}, third := reply(), out=out)[0].earlier, "a part of the questions"
    assert third.asked == []
    assert [json.loads(line)["query_id"] for line in out.read_text().splitlines()] == [0, 1, 2, 3, 4]


def test_what_failed_is_asked_again(index, tmp_path):
    out = tmp_path / "a.jsonl"
    model = FakeModel(lambda prompt, number: ModelError("busy") if number == 1 else GOOD)
    all_of(index, ["a", "b", "c"], model, out=out)
    again = reply()
    records = all_of(index, ["a", "b", "c"], again, out=out)
    assert len(again.asked) == 1 and "Question: b" in again.asked[0]
    assert len(records) == 3


def test_a_no_answer_is_an_answer_and_not_asked_again(index, tmp_path):
    out = tmp_path / "a.jsonl"
    all_of(index, ["a"], reply("<answer>NA</answer>"), out=out)
    assert json.loads(out.read_text())["answer"] is None
    assert all_of(index, ["a"], again := reply(), out=out)[0].answer is None
    assert again.asked == []


def test_all_that_came_before_a_stop_is_in_the_file(index, tmp_path):
    out = tmp_path / "a.jsonl"

    def stop(prompt, number):
        if number == 2:
            raise KeyboardInterrupt
        return GOOD

    asking = ask(index, ["a", "b", "c", "d"], FakeModel(stop), out=out, settings=SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        list(asking)
    assert len(out.read_text().splitlines()) == 2
    fatal = FakeModel(lambda prompt, number: ModelError("quota", fatal=True) if number == 1 else GOOD)
    with pytest.raises(ModelError, match="quota"):
        all_of(index, ["a", "b", "c", "d"], fatal, k=10, out=out)
    assert len(out.read_text().splitlines()) == 3
    assert len(all_of(index, ["a", "b", "c", "d"], last := reply(), k=10, out=out)) == 4
    assert len(last.asked) == 1


def test_a_caller_that_stops_early_lets_others_write(index, tmp_path):
    out = tmp_path / "a.jsonl"
    asking = ask(index, ["a", "b"], reply(), out=out, settings=SETTINGS)
    next(asking)
    with pytest.raises(GTRError, match="another process writes"):
        all_of(index, ["a"], reply(), out=out, k=10)
    asking.close()
    assert len(all_of(index, ["a"], reply(), out=out, k=10)) == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"k": 2}, "k: 3 there, 2 now"),
        ({"max_new_tokens": 9}, "max_new_tokens: 1024 there, 9 now"),
        ({"settings": PromptSettings(prompt_tokens=999)}, "prompt.prompt_tokens: 2000 there, 999 now"),
        ({"settings": PromptSettings(prompt_tokens=2000, reasoning=False)}, "prompt.reasoning: true there, false now"),
        ({"model": "other"}, 'model: "fake" there, "other" now'),
        ({"base_url": "http://other/v1"}, 'base_url: null there, "http://other/v1" now'),
    ],
)
def test_answers_of_other_settings_are_not_mixed(index, tmp_path, changed, expected):
    out = tmp_path / "a.jsonl"
    all_of(index, ["a"], reply(), out=out)
    model = reply()
    for name in ("model", "base_url"):
        if name in changed:
            setattr(model, {"model": "name"}.get(name, name), changed.pop(name))
    with pytest.raises(GTRError) as caught:
        all_of(index, ["a"], model, out=out, **changed)
    assert expected in str(caught.value)
    assert model.asked == []
    assert not all_of(index, ["a"], model, out=out, overwrite=True, **changed)[0].earlier


def test_other_templates_examples_knobs_or_tables_are_other_settings(index, tmp_path, fake_encoder):
    from gtr_gpu.prompts import packaged_examples

    out, folder = tmp_path / "a.jsonl", tmp_path / "templates"
    folder.mkdir()
    all_of(index, ["a"], reply(), out=out)
    (folder / "steps.jinja").write_text("Think.\n")
    other = [
        {"settings": PromptSettings(prompt_tokens=2000, templates=folder)},
        {"settings": PromptSettings(prompt_tokens=2000, examples=packaged_examples("short")[:1])},
        {"config": index.config.override({"damping": 0.31})},
    ]
    for options, name in zip(other, ("prompt.templates", "prompt.examples", "search.damping"), strict=True):
        with pytest.raises(GTRError, match=rf"\({name}: "):
            all_of(index, ["a"], reply(), out=out, **options)
    changed = GTRIndex.build(TABLES[:3], tmp_path / "index", config=fast_config())
    with pytest.raises(GTRError, match=r"index\."):
        all_of(changed, ["a"], reply(), out=out)


def test_an_answer_that_an_older_version_recorded(index, tmp_path):
    out = tmp_path / "a.jsonl"
    all_of(index, ["a"], reply(), out=out)
    record = json.loads(out.read_text())
    del record["cells"]
    out.write_text(json.dumps(record) + "\n")
    with pytest.raises(GTRError, match="lacks what this version records"):
        all_of(index, ["a"], reply(), out=out)
