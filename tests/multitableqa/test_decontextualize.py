"""Vague references in real questions, before and after."""

import re

import pytest

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.captions import entity, stands_for, title_of
from gtr_gpu.multitableqa.decontextualize import Context, Decontextualizer, Explicit
from gtr_gpu.multitableqa.references import without_marker


@pytest.fixture(scope="module")
def rules() -> Decontextualizer:
    return Decontextualizer()


def one(rules: Decontextualizer, text: str, caption: str = "", history: tuple[str, ...] = ()) -> Explicit:
    return rules.rewrite([text], [Context(caption, history)])[0]


@pytest.mark.parametrize(
    ("text", "caption", "expected", "kind"),
    [
        (
            "what is the number of the division this team played in?",
            "Laredo Heat",
            "what is the number of the division Laredo Heat played in?",
            "noun",
        ),
        (
            "how many players were drafted by this team in the fourth round?",
            "2013 Atlanta Falcons season",
            "how many players were drafted by the 2013 Atlanta Falcons in the fourth round?",
            "noun",
        ),
        (
            "who placed first in this race?",
            "1999 Miller Lite 225",
            "who placed first in the 1999 Miller Lite 225?",
            "noun",
        ),
        (
            "11 nation sent more than 1000 Troop to afghanistan for this mission",
            "isaf troop number statistics",
            "11 nation sent more than 1000 Troop to afghanistan for the mission in “isaf troop number statistics”",
            "noun",
        ),
        (
            "how many goals did ismail isa score this season?",
            "2010–11 PFC Levski Sofia season",
            "how many goals did ismail isa score in the 2010–11 PFC Levski Sofia season?",
            "during",
        ),
        (
            "which type is consecutive in this chart?",
            "IOPS",
            "which type is consecutive in the chart “IOPS”?",
            "table",
        ),
        (
            "what is the last airing date on the list?",
            "List of TVB series (1996)",
            "what is the last airing date on the list “TVB series (1996)”?",
            "table",
        ),
        (
            "what is the number of cup attempts listed here?",
            "FC Bayern Munich II",
            "what is the number of cup attempts listed in the table “FC Bayern Munich II”?",
            "place",
        ),
        (
            "in what year did he win the most titles?",
            "Stephen Hendry",
            "in what year did Stephen Hendry win the most titles?",
            "pronoun",
        ),
        (
            "how many games did they win by more than 7?",
            "1997 Utah Starzz season",
            "how many games did the 1997 Utah Starzz win by more than 7?",
            "pronoun",
        ),
        (
            "what team was he on?",
            "List of 2009–10 NBA season transactions",
            "in “List of 2009–10 NBA season transactions”, what team was he on?",
            "pronoun",
        ),
        ("where was her first win?", "Kathrin Hölzl", "where was Kathrin Hölzl's first win?", "possessive"),
        (
            "Who directed this documentary film that was broadcast on the channel that closed on 1 November 2015 ?",
            "2010 in Australian television - Programming changes",
            "Who directed the documentary film that was broadcast on the channel that closed on 1 November 2015?",
            "described",
        ),
        (
            "so kon po , hong kong island is the location of ma on shan recreation ground",
            "list of football clubs in hong kong",
            "kon po, hong kong island is the location of ma on shan recreation ground",
            "marker",
        ),
    ],
)
def test_the_caption_explains(rules: Decontextualizer, text: str, caption: str, expected: str, kind: str) -> None:
    found = one(rules, text, caption)
    assert found.text == expected
    assert found.changes == (kind,)
    assert not found.refers_back


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        # "That" begins a clause, "their" and "they" have their nouns before them.
        ("name a country that has finished second at least twice.", "American Handball Championship"),
        ("which team won their first game?", "2005 Baltimore Ravens season"),
        ("who won their first title in 1999?", "1999 Kentucky Derby"),
        # The list is one of nominees, the chart one of music.
        ("what song peaked first on the chart?", "Canibus discography"),
        ("how many names are on the list of nominees?", "Canibus discography"),
        # Another mention of the noun explains it.
        ("the 2003 season was longer than this season", "2003 chicago sky season"),
        # Slips for "the".
        ("which are they only two names that have spain as their country of origin?", "English American"),
        ("what is he number of times that san diego state hosted it?", "NCAA Women's Water Polo Championship"),
        # Expletives.
        ("how long did it take to complete the race?", "Edmonton Indy"),
        # What no caption stands for.
        ("how many were held at this time of the war?", "Edmonton Indy"),
    ],
)
def test_what_is_clear_stays(rules: Decontextualizer, text: str, caption: str) -> None:
    found = one(rules, text, caption)
    assert found.text in (text, text.replace("this time of", "the time of"))


def test_without_a_caption_nothing_is_invented(rules: Decontextualizer) -> None:
    assert one(rules, "What does this table show about sales?").text == "What does this table show about sales?"
    assert one(rules, "when did he retire?").changes == ()


def test_a_question_of_a_sequence_names_those_before_it(rules: Decontextualizer) -> None:
    history = ("who are all the players?",)
    found = one(rules, "which of these was in the t2 category?", "2000 Open Championship", history)
    assert found == Explicit(
        "based on the answer to “Who are all the players?”, which of these was in the t2 category?",
        "which of these was in the t2 category?",
        refers_back=True,
        changes=("history",),
    )
    of_these = one(rules, "of these, which earned silver?", "Aquatics", ("which nations competed?",))
    assert of_these.text == "of the answers to “Which nations competed?”, which earned silver?"
    marked = one(rules, "and which scored 5?", "EHF Cup", ("what are all of the countries?",))
    assert marked.text == "based on the answer to “What are all of the countries?”, which scored 5?"
    assert marked.changes == ("marker", "history")


def test_history_goes_back_to_what_stands_for_itself(rules: Decontextualizer) -> None:
    history = ("which city is it?", "who are all the drivers on this chart?", "of these, who is american?")
    found = one(rules, "who of them is the oldest?", "Edmonton Indy", history)
    assert found.text == (
        "based on the answers to “Who are all the drivers on the chart “Edmonton Indy”?” and “Of these, who is "
        "american?”, who of them is the oldest?"
    )


def test_a_question_of_a_sequence_that_stands_for_itself_is_left(rules: Decontextualizer) -> None:
    found = one(
        rules, "which player went to louisiana state university?", "1989 Draft", ("where are the players from?",)
    )
    assert found.text == found.within == "which player went to louisiana state university?"
    assert not found.refers_back


def test_a_rewriter_words_questions_instead() -> None:
    def shout(text: str, context: Context) -> str:
        return f"{text.upper()} [{context.caption}]"

    found = one(Decontextualizer(rewriter=shout), "which of these won?", "IOPS", ("who played?",))
    assert found.text == "WHICH OF THESE WON? [IOPS]"
    assert found.within == "which of these won?"
    assert found.changes == ("rewriter",)


def test_a_rewriter_without_an_answer_is_an_error() -> None:
    with pytest.raises(GTRError, match="rewriter must return the reworded question as text, got ''"):
        one(Decontextualizer(rewriter=lambda text, context: ""), "which of these won?")


def test_a_tagger_is_needed() -> None:
    with pytest.raises(GTRError, match=re.escape("decontextualize needs a spaCy pipeline with a tagger")):
        Decontextualizer("blank:en")


@pytest.mark.parametrize(
    ("noun", "caption", "expected"),
    [
        ("country", "France at the 1932 Summer Olympics", "France"),
        ("olympics", "France at the 1932 Summer Olympics", "the 1932 Summer Olympics"),
        ("team", "Shooting at the 1988 Summer Olympics", None),
        ("team", "2002 British Formula Three Championship season", None),
        ("artist", "Marija Šerifović discography", "Marija Šerifović"),
        ("show", "List of Burn Notice episodes", "Burn Notice"),
        ("band", "Renaissance (band)", "Renaissance"),
        ("country", "Rail transport in Poland", "Poland"),
        ("album", "Disneymania 4", "Disneymania 4"),
        ("player", "Dutch football transfer record", None),
        ("person", "China Airlines", None),
        ("thing", "Laredo Heat", None),
        ("team", "", None),
    ],
)
def test_what_a_caption_names(noun: str, caption: str, expected: str | None) -> None:
    assert entity(noun, caption) == expected


def test_the_section_is_no_part_of_a_title() -> None:
    assert title_of("Perth - Facilities -- Schools") == "Perth"
    assert title_of("kjlt - fm") == "kjlt - fm"
    assert stands_for("city", "Perth - Facilities") == "the city in “Perth”"
    assert stands_for("year", "Perth") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and then, which one?", "which one?"),
        ("so many players left", "so many players left"),
        ("besides australia which won?", "besides australia which won?"),
        ("Furthermore, which won?", "which won?"),
        ("also known as", "also known as"),
        ("and bronze?", "and bronze?"),
    ],
)
def test_markers_at_the_start_go(text: str, expected: str) -> None:
    assert without_marker(text) == expected
