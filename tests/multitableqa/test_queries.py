"""All steps from released questions to built ones."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.queries import BuiltQuestion, build_questions, raw_questions
from gtr_gpu.multitableqa.question_settings import QuestionSettings
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable

DROPPED = ("too_short", "stop_words", "text_only", "near_duplicates", "ambiguous", "kept")


def table(name: str, caption: str = "") -> SourceTable:
    return SourceTable(name, caption, ["a"], [["1"]], "wtq")


def ask(name: str, text: str, on: str = "t", answers: Sequence[str] = ("x",), **more: object) -> SourceQuestion:
    return SourceQuestion(name, text, on, tuple(answers), **{"dataset": "wtq", **more})  # type: ignore[arg-type]


def names(built: BuiltQuestion) -> list[str]:
    return [question.question_id for question in built.released]


TABLES = {"t": table("t", "Laredo Heat"), "u": table("u", "2013 Atlanta Falcons season")}
QUESTIONS = [
    ask("q0", "which division did this team play in first?", answers=["D3"], coordinates=((0, 1),)),
    ask("q1", "who won?"),
    ask("q2", "which division did this team play in first", answers=["D3"]),
    ask("q3", "what attendance did the opening game have?"),
    ask("q4", "what attendance did the opening game have", on="u", answers=["7"]),
    ask("q5", "which stadium has the largest capacity?", answers=["A", "B"], coordinates=((2, 0), (0, 1))),
    ask("q6", "who was the last one?"),
    ask("q7", "which risks does management describe in notes?", evidence_from="text"),
]


def test_each_step_counts_what_it_takes() -> None:
    built, counts = build_questions(QUESTIONS, TABLES, QuestionSettings(merge_share=0))
    assert [one.text for one in built] == [
        "Which division did Laredo Heat play in first?",
        "Which stadium has the largest capacity?",
    ]
    assert counts == {
        "read": 8, "too_short": 1, "stop_words": 1, "text_only": 1, "near_duplicates": 1, "ambiguous": 2, "kept": 2,
        "explicit": 1, "explicit_noun": 1, "built": 2, "built_of_1": 2, "not_drawn": 0,
    }  # fmt: skip
    assert counts["read"] == sum(counts[name] for name in DROPPED)


def test_every_step_can_be_switched_off() -> None:
    off = QuestionSettings(
        min_words=0, max_stop_share=2, text_only=True, duplicate_similarity=2, ambiguous=True, decontextualize=False,
        merge_share=0,
    )  # fmt: skip
    built, counts = build_questions(QUESTIONS, TABLES, off)
    assert counts["built"] == len(QUESTIONS)
    assert built[0].text == "Which division did this team play in first?"


def test_a_merged_question_keeps_all_answers() -> None:
    questions = [QUESTIONS[0], QUESTIONS[5]]
    (one,), counts = build_questions(questions, TABLES, QuestionSettings(merge_share=1, max_parts=2))
    assert one == BuiltQuestion(one.text, ("D3", "A", "B"), tuple(questions))
    assert (one.source_id, one.parts) == ("t", 2)
    assert one.text.lower().count("which") == 2
    assert counts["built_of_2"] == 1
    hidden = [questions[0], dataclasses.replace(questions[1], answers=())]
    (one,), _ = build_questions(hidden, TABLES, QuestionSettings(merge_share=1, max_parts=2))
    assert one.answers == ()


def test_only_questions_of_one_set_and_kind_are_merged() -> None:
    questions = [
        ask("a", "which division was played in first?"),
        ask("b", "which stadium has the largest capacity?", dataset="sqa"),
        ask("c", "the stadium opened in june of 1990", kind="statement"),
        ask("d", "which division was played in last?", on="u"),
    ]
    built, _ = build_questions(questions, TABLES, QuestionSettings(merge_share=1))
    assert [one.parts for one in built] == [1, 1, 1, 1]
    assert built[2].text == "The stadium opened in june of 1990."


def sequence(*texts: str, name: str = "s") -> list[SourceQuestion]:
    return [
        ask(f"{name}{place}", text, answers=[str(place)], history=texts[:place], sequence=name, position=place)
        for place, text in enumerate(texts)
    ]


def test_a_sequence_is_merged_in_its_order() -> None:
    questions = sequence("which clubs played in the top 14 season?", "what were their bonus point scores?")
    (one,), _ = build_questions(questions[::-1], TABLES, QuestionSettings(max_parts=2))
    assert one.text == (
        "Which clubs played in the top 14 season? Based on the answer, what were their bonus point scores?"
    )
    assert (one.answers, names(one)) == (("0", "1"), ["s0", "s1"])


def test_a_sequence_without_its_first_question_quotes_it() -> None:
    questions = sequence("which clubs played in the top 14 season?", "what were their bonus point scores?")
    (one,), _ = build_questions(questions[1:], TABLES)
    assert one.text == (
        "Based on the answer to “Which clubs played in the top 14 season?”, what were their bonus point scores?"
    )


def test_two_sequences_that_begin_alike_share_the_beginning() -> None:
    start = "which clubs played in the top 14 season?"
    first = sequence(start, "what were their bonus point scores?", name="s")
    second = sequence(start, "which of them won most games at home?", name="z")
    built, counts = build_questions([*first, *second], TABLES)
    assert counts["near_duplicates"] == 1
    assert sorted(name for one in built for name in names(one)) == ["s0", "s1", "z1"]


def test_raw_questions_are_those_of_the_built_ones_as_released() -> None:
    built, _ = build_questions(QUESTIONS, TABLES, QuestionSettings(merge_share=1))
    raw = raw_questions(QUESTIONS, built)
    assert [one.text for one in raw] == [QUESTIONS[0].text, QUESTIONS[5].text]
    assert [names(one) for one in raw] == [["q0"], ["q5"]]


def many(tables: int = 6, each: int = 8) -> tuple[list[SourceQuestion], dict[str, SourceTable]]:
    questions = [
        ask(f"{at}-{nth}", f"which {word} scored {at}{nth} points for club {at}?", on=str(at))
        for at in range(tables)
        for nth, word in zip(
            range(each), ("red", "blue", "green", "black", "white", "brown", "pink", "grey"), strict=False
        )
    ]
    return questions, {str(at): table(str(at)) for at in range(tables)}


def test_the_seed_decides() -> None:
    questions, tables = many()
    built = build_questions(questions, tables, QuestionSettings(seed=1))
    assert built == build_questions(questions, tables, QuestionSettings(seed=1))
    assert built[0] != build_questions(questions, tables, QuestionSettings(seed=2))[0]


def test_other_tables_do_not_change_a_tables_questions() -> None:
    questions, tables = many()
    built, _ = build_questions(questions, tables)
    last = [question for question in questions if question.table_id == "5"]
    alone, _ = build_questions(last, tables)
    assert alone == [one for one in built if one.source_id == "5"]


def test_at_most_so_many_are_drawn_of_a_table() -> None:
    questions, tables = many()
    built, counts = build_questions(questions, tables, QuestionSettings(max_per_table=2))
    assert [sum(one.source_id == name for one in built) for name in tables] == [2] * 6
    assert counts["not_drawn"] == 48 - sum(one.parts for one in built)


def test_nothing_makes_nothing() -> None:
    built, counts = build_questions([], {})
    assert built == []
    assert counts["read"] == counts["built"] == 0


def test_a_question_on_an_unknown_table_is_an_error() -> None:
    with pytest.raises(GTRError, match="question 'q' of wtq must be on one of the 2 tables, got 'v'"):
        build_questions([ask("q", "which division was played in?", on="v")], TABLES)


@pytest.mark.parametrize("knob", [{"merge_share": 1.5}, {"max_parts": 1}, {"min_words": -1}])
def test_knobs_have_ranges(knob: dict[str, float]) -> None:
    with pytest.raises(GTRError, match=f"{next(iter(knob))} of the questions must be .*, got"):
        QuestionSettings(**knob)  # type: ignore[arg-type]


def test_real_sequences_are_built(shared_data: Path) -> None:
    def lines(name: str) -> list[dict[str, object]]:
        with zstandard.open(shared_data / "sqa" / f"{name}.jsonl.zst", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    tables = {
        str(one["table_id"]): SourceTable(str(one["table_id"]), str(one["caption"]), [], [], "sqa")
        for one in lines("tables")
    }
    questions = []
    for one in lines("queries")[:600]:
        name, _, place = str(one["query_id"]).rpartition("_")
        history = tuple(map(str, one.get("history", ())))  # type: ignore[call-overload]
        sequence = {"history": history, "sequence": name, "position": int(place), "dataset": "sqa"}
        questions.append(ask(str(one["query_id"]), str(one["query"]), str(one["table_id"]), **sequence))
    built, counts = build_questions(questions, tables)
    assert counts["read"] == sum(counts[name] for name in DROPPED) == 600
    assert sum(one.parts for one in built) == counts["kept"] > 450
    assert all(one.text[0] == one.text[0].upper() and one.text[-1] in "?.”" for one in built)
    assert counts["built_of_2"] + counts["built_of_3"] > counts["built_of_1"]
