"""Forty answers scored by hand: question, gold, the model's answer, and what each metric has to give.

Worked out from the definitions alone. SQuAD's normalisation takes out ASCII punctuation and articles, so a decimal
point or a bracket vanishes; that of WikiTableQuestions keeps both, and takes out diacritics, citations and brackets at
the end.
"""

from fractions import Fraction
from typing import NamedTuple


class TextCase(NamedTuple):
    """An answer in words: a text, several items, or none at all."""

    question: str
    gold: tuple[str, ...]
    answer: str | tuple[str, ...] | None
    exact_match: float
    token_f1: float
    denotation: float


class LabelCase(NamedTuple):
    """Whether a statement is true."""

    statement: str
    gold: tuple[str, ...]
    answer: str | None
    label_accuracy: float


TWO_THIRDS = float(Fraction(2, 3))

TEXT_CASES = [
    TextCase("in which year did the team last play?", ("2004",), "2004", 1, 1, 1),
    # The comma counts for WikiTableQuestions alone.
    TextCase("in what city did he finish first?", ("Bangkok, Thailand",), "bangkok thailand", 1, 1, 0),
    # So does the article.
    TextCase("who won before crettyard?", ("Wolfe Tones",), "The Wolfe Tones", 1, 1, 0),
    # Precision 1, recall 1/2.
    TextCase("which show was she in?", ("Holby City",), "Holby", 0, TWO_THIRDS, 0),
    # The same words in another order; the same day.
    TextCase("when was it released?", ("December 16, 2011",), "16 December 2011", 0, 1, 1),
    # As a text "20111216", which is no token of "december 16 2011"; the same day.
    TextCase("when was it released?", ("December 16, 2011",), "2011-12-16", 0, 0, 1),
    # The same month, with a day that neither tells.
    TextCase("in which month was it released?", ("December 2011",), "2011-12-xx", 0, 0, 1),
    # Precision 1, recall 2/3; a date whose day isn't known is not that day.
    TextCase("when was it released?", ("December 16, 2011",), "December 2011", 0, 0.8, 0),
    # "14965" for both; a currency sign says nothing of the number.
    TextCase("what were total sales?", ("1,496.5",), "$1,496.5", 1, 1, 1),
    TextCase("how many shares are outstanding?", ("2,806,364",), "2806364", 1, 1, 1),
    TextCase("what is the average gross profit?", ("103493.33",), "103493", 0, 0, 0),
    # "05" and "050"; the same number.
    TextCase("what is the average?", ("0.5",), "0.50", 0, 0, 1),
    # The known weakness of SQuAD's: without the point both are "50".
    TextCase("how many games?", ("50",), "5.0", 1, 1, 0),
    # "64" for both; brackets are a minus in accounts.
    TextCase("what was the loss?", ("(64)",), "-64", 1, 1, 1),
    TextCase("what was the loss?", ("(64)",), "64", 1, 1, 0),
    TextCase("by how much did it grow?", ("20%",), "20", 1, 1, 1),
    # Order is nothing among items.
    TextCase(
        "how many goals, which team, how long?",
        ("3", "Hajduk Split", "4 years"),
        ("Hajduk Split", "3", "4 years"),
        1,
        1,
        1,
    ),
    # Two of the larger number of items, three, are found whole.
    TextCase(
        "how many goals, which team, how long?",
        ("3", "Hajduk Split", "4 years"),
        ("3", "Hajduk Split"),
        0,
        TWO_THIRDS,
        0,
    ),
    # One text against the joined items; as a denotation it is one item, not three.
    TextCase(
        "how many goals, which team, how long?",
        ("3", "Hajduk Split", "4 years"),
        "3, Hajduk Split, 4 years",
        1,
        1,
        0,
    ),
    # "15 years" is 2/3 (precision 1, recall 1/2), "charles gordon" 4/5 (1, 2/3); their mean is 11/15.
    TextCase(
        "which sentence, and who else received it?",
        ("15 years in prison", "Charles Herbert Gordon"),
        ("15 years", "Charles Gordon"),
        0,
        float(Fraction(11, 15)),
        0,
    ),
    # An article alone is nothing after SQuAD's normalisation, and nothing equals nothing.
    TextCase("which group were they in?", ("A",), "The", 1, 1, 0),
    # Three items against two, of which two are the same: a denotation is a set.
    TextCase("which colours did they wear?", ("red", "red", "blue"), ("red", "blue"), 0, TWO_THIRDS, 1),
    # SQuAD's keeps the accent, so the only token differs.
    TextCase("who sang it?", ("Beyoncé",), "Beyonce", 0, 0, 1),
    # Tokens "lincoln", "city3" against "lincoln", "city": one of two both ways.
    TextCase("who won?", ("Lincoln City[3]",), "Lincoln City", 0, 0.5, 1),
    # Tokens "ohio", "oh" against "ohio": precision 1, recall 1/2.
    TextCase("which state?", ("Ohio (OH)",), "Ohio", 0, TWO_THIRDS, 1),
    # An en dash is no ASCII punctuation: "1990–91" against "199091".
    TextCase("in which season?", ("1990–91",), "1990-91", 0, 0, 1),
    # Neither are curly quotes, so both tokens differ.
    TextCase("which song?", ("“Hey Jude”",), "Hey Jude", 0, 0, 1),
    TextCase("did they win?", ("Yes",), None, 0, 0, 0),
    # A full stop within a text stays for WikiTableQuestions.
    TextCase("where was he born?", ("St. Louis",), "St Louis", 1, 1, 0),
    # A date of which the year alone is known is a number.
    TextCase("in which year?", ("2011",), "2011-xx-xx", 0, 0, 1),
    # The second "1" has no item left to be aligned with; as a set the answer has one item.
    TextCase("which places?", ("1", "2"), ("1", "1"), 0, 0.5, 0),
    # Two of the answer's tokens, of which each is there twice: precision 1, recall 1/2.
    TextCase("which musical?", ("New York New York",), "New York", 0, TWO_THIRDS, 0),
    # One gold item is a text, so the items given are joined; as a denotation they are two.
    TextCase("in what city?", ("Bangkok, Thailand",), ("Bangkok", "Thailand"), 1, 1, 0),
]

LABEL_CASES = [
    LabelCase("Lamar Green played forward.", ("1",), "True", 1),
    LabelCase("Lamar Green played centre.", ("0",), "True", 0),
    LabelCase("Lamar Green played centre.", ("0",), "False", 1),
    # No answer is wrong, whatever the label.
    LabelCase("Lamar Green played forward.", ("1",), None, 0),
    # A merged statement is true where all of its parts are.
    LabelCase("He played forward. Furthermore, he won twice.", ("1", "0"), "False", 1),
    LabelCase("He played forward. Furthermore, he won once.", ("1", "1"), "True", 1),
    LabelCase("He played forward. Furthermore, he won twice. In addition, he retired.", ("1", "0", "1"), "True", 0),
]
