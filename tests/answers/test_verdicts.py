"""What models write of a statement that is to be verified, and the verdict that it is."""

import pytest
from answer_fakes import RAMBLING, STEPS, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, "True") for word in ("True", "true.", "YES", "Supported", "entailed", "Correct", "1", "**TRUE**")),
        *((word, "False") for word in ("False", "no", "Refuted", "0", "incorrect", "Not supported", "not entailed")),
        *((f"It is {word} by all tables", "True") for word in ("verified", "confirmed", "entailed", "supported")),
        *((f"Table 1 {word} it", "True") for word in ("supports", "entails")),
        *((f"Table 1 {word} it", "False") for word in ("refutes", "contradicts")),
        *((f"This is {word} here", "True") for word in ("accurate", "valid", "right", "an entailment")),
        *((f"This is {word} here", "False") for word in ("wrong", "inaccurate", "untrue", "invalid", "unsupported")),
        *((f"This is {word} here", "False") for word in ("a contradiction", "refuted", "contradicted", "incorrect")),
        ("The statement is true.", "True"),
        ("The claim is supported by Table 1.", "True"),
        ("The statement is not true.", "False"),
        ("The statement isn't correct", "False"),
        ("It is not false.", "True"),
        ("False. The table shows 3, not 4.", "False"),
        ("True, since no other game was sold more often", "True"),
        ("No, the statement is correct in parts", "False"),
        ("Unsupported", "False"),
        ("The statement is contradicted by the second row.", "False"),
        ("verdict: SUPPORTED", "True"),
        ("Answer: False", "False"),
        ("That was never true", "False"),
        ("True, if the table is right", None),
        ("It is unclear whether this is correct", None),
        ("mostly accurate", None),
        ("half right", None),
        ("The statement could not be verified", None),
        ("Unverifiable, but true to my knowledge", None),
        ("True unless Table 2 is wrong", None),
        ("I am uncertain, perhaps true", None),
        ("whether it is true depends on the year", None),
        ("True or False", None),
        ("True/False", None),
        ("partially true", None),
        ("The statement cannot be verified", None),
        ("This can't be confirmed", None),
        ("neither true nor false", None),
        ("The tables don't support it", "False"),
        ("not fully supported", "False"),
        ("NOT ENOUGH INFO", None),
        ("The statement is true in Table 1 and false in Table 2.", None),
        ("Paris", None),
        ("10", None),
        ("trueish", None),
    ],
)
def test_verification(text, expected):
    assert value(f"<answer>{text}</answer>", "verification") == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("True", "True"),
        ("False\n\nThe table shows something else for the year, so the statement can't hold as it was put.", "False"),
        (f"{STEPS}\nTherefore, the statement is false.", "False"),
        (f"{STEPS}\nThe statement is not supported.", "False"),
        (f"{STEPS}\nThe claim isn't supported by Table 1.", "False"),
        ("The statement is true.", "True"),
        ('{"answer": true}', "True"),
        (RAMBLING, None),
        ("The true height of the tower is in the second column\nIt is listed there", None),
    ],
)
def test_verification_without_tags(raw, expected):
    assert value(raw, "verification") == expected


@pytest.mark.parametrize("text", ["1.", "1.\nThe table says so.\nUnclear."])
def test_the_number_of_a_step_is_no_verdict(text):
    assert value(text, "verification") is None
    assert value("<answer>1</answer>", "verification") == "True"
