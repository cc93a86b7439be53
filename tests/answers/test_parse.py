"""What models write, and what it says."""

import pytest
from answer_fakes import CITIES, FORM, GAMES, RAMBLING, STEPS, make_prompt, value
from hypothesis import given
from hypothesis import strategies as st

from gtr_gpu.answers.parse import parse_answer
from gtr_gpu.tables import Table

# The output of the published method that the task names as known and good.
KNOWN_GOOD = """<reasoning>
1. The query asks for the release date of a game called "Mario Kart Advance".
2. From Table 1, we can find that "Mario Kart Advance" is listed under the "Game Title" column.
3. The corresponding entry in the "Release Date" column is "December 16, 2011".
4. Therefore, the release date of "Mario Kart Advance" is December 16, 2011.
</reasoning>
<answer>
December 16, 2011
</answer>
"""


def test_the_known_good_output():
    answer = parse_answer(KNOWN_GOOD, make_prompt(), "short")
    assert answer.value == "December 16, 2011"
    assert answer.reasoning == KNOWN_GOOD[len("<reasoning>\n") : KNOWN_GOOD.index("\n</reasoning>")]
    assert answer.reasoning.count("\n") == 3
    assert (answer.tables, answer.unknown_tables, answer.raw) == ((1,), (), KNOWN_GOOD)
    assert {(cell.row, cell.column, cell.text) for cell in answer.cells} == {
        (1, 0, "Mario Kart Advance"),
        (1, 1, "December 16, 2011"),
    }


TAGS = {
    "as asked": f"<reasoning>\n{STEPS}\n</reasoning>\n<answer>\nParis\n</answer>",
    "on one line": f"<reasoning>{STEPS}</reasoning><answer>Paris</answer>",
    "upper case": f"<REASONING>{STEPS}</REASONING>\n<ANSWER>Paris</ANSWER>",
    "padded": f"< reasoning >{STEPS}</ reasoning >\n<Answer >\n  Paris  \n</answer >",
    "with an attribute": f'<reasoning>{STEPS}</reasoning><answer type="text">Paris</answer>',
    "another name": f"<reasoning>{STEPS}</reasoning><final_answer>Paris</final_answer>",
    "plural": "<answers>Paris</answers>",
    "text around": f"Sure! Here it is:\n\n<reasoning>{STEPS}</reasoning>\n<answer>Paris</answer>\n\nAnything else?",
    "fenced": f"```xml\n<reasoning>\n{STEPS}\n</reasoning>\n<answer>\nParis\n</answer>\n```",
    "fenced within": "<answer>\n```text\nParis\n```\n</answer>",
    "bold tags": f"**<reasoning>**\n{STEPS}\n**</reasoning>**\n**<answer>**\nParis\n**</answer>**",
    "bold answer": "<answer>**Paris**</answer>",
    "code answer": "<answer>`Paris`</answer>",
    "quoted answer": '<answer>"Paris"</answer>',
    "unclosed answer": f"<reasoning>{STEPS}</reasoning>\n<answer>Paris",
    "unclosed answer on one line": f"<reasoning>{STEPS}</reasoning> <answer>Paris",
    "unclosed answer in bold": f"**<answer>Paris\n\n{STEPS}",
    "unclosed answer with talk": f"<reasoning>{STEPS}</reasoning>\n<answer>\nParis\n\nI hope this helps!",
    "half a closing tag": "<answer>Paris</answ",
    "closed by opening": "<answer>Paris<answer>",
    "closed by itself": "<answer>Paris<answer/>",
    "closed with the wrong slash": r"<answer>Paris<\answer>",
    "unclosed reasoning": f"<reasoning>\n{STEPS}\n<answer>Paris</answer>",
    "reasoning closed by opening": f"<reasoning>{STEPS}<reasoning><answer>Paris</answer>",
    "unopened answer": f"<reasoning>{STEPS}</reasoning>\nParis\n</answer>",
    "only closed": "Paris</answer>",
    "twice closed": "<answer>Paris</answer></answer>",
    "nested": "<answer><answer>Paris</answer></answer>",
    "answer in reasoning": f"<reasoning>{STEPS} <answer>Paris</answer></reasoning>",
    "reasoning in answer": f"<answer><reasoning>{STEPS}</reasoning>Paris</answer>",
    "a second, other answer": "<answer>Lyon</answer> No, wait.\n<answer>Paris</answer>",
    "a second, empty answer": "<answer>Paris</answer>\n<answer></answer>",
    "a second, placeholder answer": "<answer>Paris</answer>\n<answer>[Final answer]</answer>",
    "the form echoed first": FORM.format(question="q") + f"\n<reasoning>{STEPS}</reasoning>\n<answer>Paris</answer>",
    "the form echoed after": f"<reasoning>{STEPS}</reasoning>\n<answer>Paris</answer>\n" + FORM.format(question="q"),
    "the whole prompt echoed": make_prompt().text + "<answer>Paris</answer>",
    "the tag named in prose": "I put it in the <answer> tag.\n<answer>Paris</answer>\nThe `<answer>` tag holds it.",
    "in empty tags first": "I will use <answer></answer> tags.\n<answer>Paris</answer>",
    "prefixed within": "<answer>The answer is: Paris</answer>",
    "prefixed in bold": "<answer>**Final Answer:** Paris</answer>",
    "boxed": r"<answer>\boxed{Paris}</answer>",
    "boxed text": r"<answer>$\boxed{\text{Paris}}$</answer>",
    "JSON within": '<answer>{"answer": "Paris"}</answer>',
    "a list of one": '<answer>["Paris"]</answer>',
    "a bullet of one": "<answer>\n- Paris\n</answer>",
    "special tokens": "<answer>Paris</answer><|im_end|>\n<|endoftext|>",
    "special token unclosed": "<answer>Paris<|im_end|>",
    "special token of Llama 2": "<answer>Paris</s>",
    "special token of Gemma": "<answer>Paris<end_of_turn>\n<eos><pad>",
    "wrapped in response": "<response><reasoning>x</reasoning><answer>Paris</answer></response>",
    "thought first": "<think>\nIs it Lyon? <answer>Lyon</answer>\n</think>\n<answer>Paris</answer>",
    "thought opened by the template": "Is it Lyon? <answer>Lyon</answer>\n</think>\n\n<answer>Paris</answer>",
    "thought with a mention": "<think>I close </think> later. Lyon?\n</think>\n<answer>Paris</answer>",
    "other signs of thought": "◁think▷Lyon?◁/think▷<answer>Paris</answer>",
    "thought in brackets": "[THINK]Lyon?[/THINK]\n<answer>Paris</answer>",
    "thought in a channel": "<|channel|>analysis<|message|><answer>Lyon</answer>?<|end|><|start|>assistant"
    "<|channel|>final<|message|><answer>Paris</answer><|return|>",
    "thought that never closes its tag": "<thinking>Lyon? <answer>Lyon</thinking><answer>Paris</answer>",
    "thought of another name": "<thought><answer>Lyon</answer></thought>Answer: Paris",
    "thought of Seed": "<seed:think><answer>Lyon</answer></seed:think>Answer: Paris",
    "thought of Command": "<|START_THINKING|><answer>Lyon</answer>?<|END_THINKING|>Answer: Paris",
    "thought of Sky": "<|begin_of_thought|><answer>Lyon</answer>?<|end_of_thought|>Answer: Paris",
    "commentary in a channel": "<|channel|>commentary<|message|><answer>Lyon</answer>?<|channel|>final<|message|>"
    "Answer: Paris",
    "thought that ends in the answer": f"<think>\n{STEPS}\n<reasoning>x</reasoning>\n<answer>Paris</answer>",
    "thought closed after the answer": f"<think>{STEPS}<answer>Paris</answer></think>",
    "windows lines": "<answer>\r\nParis\r\n</answer>\r\n",
}


@pytest.mark.parametrize("raw", TAGS.values(), ids=TAGS)
def test_tags_however_they_are_written(raw):
    assert value(raw) == "Paris"


UNTAGGED = {
    "bare": "Paris",
    "bare with a stop": "Paris.",
    "bare bold": "**Paris**",
    "a colon": f"{STEPS}\nAnswer: Paris",
    "bold": f"{STEPS}\n\n**Answer:** Paris",
    "bold outside": f"{STEPS}\n\n**Answer**: **Paris**",
    "all bold": f"{STEPS}\n\n***ANSWER: Paris***",
    "final": f"{STEPS}\n\nFinal Answer: Paris",
    "final with a sentence": "Final Answer: The final answer is Paris.",
    "on the next line": f"{STEPS}\n\nAnswer:\nParis",
    "under a heading": f"{STEPS}\n\n### Final Answer\n\nParis",
    "a sentence": f"{STEPS}\nThe answer is Paris.",
    "so a sentence": f"{STEPS}\n4. Therefore, the final answer is **Paris**.",
    "a sentence on its question": f"{STEPS}\nThe answer to the question is Paris.",
    "after reasoning": f"<reasoning>{STEPS}</reasoning>\nParis",
    "after reasoning, announced": f"<reasoning>{STEPS}</reasoning>\n\nThe answer is Paris.",
    "in open reasoning": f"<reasoning>\n{STEPS}\n\nAnswer: Paris",
    "in closed reasoning": f"<reasoning>\n{STEPS}\nThe answer is Paris.\n</reasoning>",
    "two signs": "Answer: Lyon\nThat is wrong.\nAnswer: Paris",
    "JSON": '{"reasoning": "Table 1 lists it.", "answer": "Paris"}',
    "fenced JSON": '```json\n{"Reasoning": ["Table 1"], "Final Answer": "Paris"}\n```',
    "broken JSON": '{"reasoning": "It says "Paris" there.", "final_answer": "Paris"}',
    "boxed at the end": f"{STEPS}\nSo it is $\\boxed{{Paris}}$.",
    "thought, then bare": "<think>Lyon? Rather Paris.</think>\n\nParis",
    "thought, then a sign": "Lyon? Rather Paris.</think>\n\nAnswer: Paris",
    "bare, then explained": "Paris\n\nExplanation: Table 1 lists it under the name of the city.",
    "bare, then reasoned": "Paris\n\n**Reasoning:** Table 1 lists it.",
    "bare, then because": "Paris\nBecause Table 1 lists it.",
    "bare, then noted": "Paris\nNote: Table 1 lists it.",
    "a sentence, then another": f"{STEPS}\nThe answer is Paris. It is listed in Table 1",
    "my sentence": f"{STEPS}\nMy answer would be Paris.",
    "what it should be": f"{STEPS}\nThe correct answer should be Paris.",
    "what it was": f"{STEPS}\nThe answer to your query was Paris.",
    "my sign": f"{STEPS}\nMy answer: Paris",
    "a correct sign": f"{STEPS}\nThe correct answer is: Paris",
}


@pytest.mark.parametrize("raw", UNTAGGED.values(), ids=UNTAGGED)
def test_answers_without_tags(raw):
    assert value(raw).rstrip(".") == "Paris"


NOTHING = {
    "nothing": "",
    "blanks": " \n\t",
    "empty": "<answer></answer>",
    "blank": "<answer>\n \n</answer>",
    "placeholder": "<reasoning>\n[Detailed reasoning steps]\n</reasoning>\n<answer>\n[Final answer]\n</answer>",
    "placeholder in another case": "<answer>[final answer here]</answer>",
    "placeholder in angles": "<answer><your answer></answer>",
    "placeholder of a response": "<answer>[Your response]</answer>",
    "placeholder to insert": "<answer>{insert here}</answer>",
    "placeholder of items": "<answer>[items]</answer>",
    "dots in angles": "<answer><...></answer>",
    "dots": "<answer>...</answer>",
    "the form alone": FORM.format(question="q"),
    "the whole prompt": make_prompt().text,
    "rambling": RAMBLING,
    "rambling in tags": f"<reasoning>{RAMBLING}</reasoning>",
    "a sentence in reasoning": "<reasoning>It is Paris.</reasoning>",
    "the question": "When was Mario Kart Advance released?",
    "a question back": "Could you give me more context?",
    "an announcement": "Here is the answer:",
    "talk of the user": "Okay, so the user asks about the first game",
    "talk to oneself": "Let's look at the tables",
    "talk of a plan": "To answer this, look at the second column",
    "talk of a need": "We need the release date of the game",
    "talk of a step": "First, find the row of the game",
    "talk of an intent": "I will look at Table 1",
    "talk of the question": "The question asks for a date",
    "talk of a basis": "Based on the second row",
    "talk of a look": "Looking at the second row",
    "talk of results": "Here are the dates of the games",
    "talk of consent": "Sure, happy to help",
    "talk of agreement": "OK, happy to help",
    "talk of certainty": "Certainly, happy to help",
    "a request": "Please provide the tables",
    "a step by its name": "Step 1: the release date",
    "rambling, then a closing tag": f"{RAMBLING}</answer>",
    "one step": "1. The query asks for the release date of a game.",
    "open thought": "<think>\nThe query asks for a city. Maybe Lyon. Answer: Lyon\nBut wait",
    "open thought with a draft": "<think>\nI should write <answer>Lyon</answer> in the end. But wait",
    "only thought": "<think>Lyon</think>",
    "only thought of Command": "<|START_THINKING|>Lyon",
    "only thought of Sky": "<|begin_of_thought|>Lyon",
    "only thought in a channel": "<|channel|>analysis<|message|>Lyon",
    "tag without a name": "<>",
    "open thought with an open draft": "<think>\nMaybe <answer>Lyon",
    "a heading of something else": "## Dates\n\nThe table holds many dates of games.\nOne of them is right.",
    "a short announcement": "The dates:",
    "a short question": "Which game?",
    "a long line": "Mario Kart Advance came out in the same year as Mario Kart 7 and long after the first one of all",
    "special tokens": "<|im_end|>",
}


@pytest.mark.parametrize("kind", ["short", "list", "verification"])
@pytest.mark.parametrize("raw", NOTHING.values(), ids=NOTHING)
def test_no_answer_is_never_an_invented_one(raw, kind):
    answer = parse_answer(raw, make_prompt(), kind)
    assert answer.value is None
    assert answer.raw == raw


@pytest.mark.parametrize(
    "text",
    [
        *(
            "NA",
            "N/A",
            "n.a.",
            "None",
            "null",
            "Unknown",
            "-",
            "not available",
            "Not Found.",
            "No answer",
            "unanswerable",
        ),
        "I cannot answer this question based on the given tables.",
        "I'm sorry, but I can't determine the answer from the tables.",
        "The answer is not available in the provided tables.",
        "The answer cannot be determined.",
        "There is not enough information to answer the question.",
        "Insufficient information",
        "The tables do not contain information about the release date.",
        "The provided tables don't mention it.",
        "No relevant table was found.",
        "Not specified in the tables",
        "NA (the tables do not say)",
        "N/A.",
        "**N/A**",
        "[NA]",
        *(f"Not {word}." for word in ("applicable", "provided", "given", "mentioned", "stated", "listed", "known")),
        *(f"Not {word}." for word in ("present", "included", "determined", "answered", "identified", "shown")),
        *(f"Not {word}." for word in ("clear", "possible", "in the tables", "enough data", "sufficient")),
        *(f"The given tables do not {word} it" for word in ("provide", "include", "have", "show", "say", "give")),
        "These tables do not specify it",
        "N/A - it is in neither table",
        "nil",
        "NaN",
        "n/a in both tables",
        "Not enough information.",
        "Data is not provided",
        "No data",
        "There is no information on this in Table 1.",
        "I don\u2019t know.",
        "I do not have the information to answer.",
        "We can not tell from the tables.",
        "Unable to determine the date.",
        "I couldn't find it, based on the tables.",
        "It is impossible to tell.",
        "It is not possible to determine this.",
        "The answer could not be determined.",
        "The answer can't be found in the tables.",
        "This information was not given.",
        "The question cannot be answered.",
        "Table 2 does not list it.",
        "1. NA",
        "NA because the tables don't list it",
        "I'm not sure.",
        "We don't know.",
        "Unfortunately, the tables don't say.",
        "Final Answer: The tables do not hold it.",
        "None of the tables mention it.",
        "The provided tables contain no such data.",
        "No release date is given in the tables.",
        "The release date is not given.",
        "It isn't listed in any table.",
        "No results",
        "Therefore, the answer is:",
        "The answer is",
        "your answer here",
        "\\boxed{}",
        "As an AI language model, I cannot browse.",
    ],
)
@pytest.mark.parametrize("kind", ["short", "list", "verification"])
def test_a_model_that_says_it_does_not_know(text, kind):
    assert value(f"<reasoning>{STEPS}</reasoning>\n<answer>{text}</answer>", kind) is None
    assert value(f"{STEPS}\nAnswer: {text}", kind) is None


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "Nancy",
        "Nana",
        "Naples",
        "NASA",
        "Noneuil",
        "Unknown Pleasures",
        "No. 7",
        "Nothing Else Matters",
        "I Can't Dance",
        "It is known to few",
        "Information is given freely",
        "Data is available in Table 1",
        "+",
        "?!",
    ],
)
def test_what_only_looks_like_it(text):
    assert value(f"<answer>{text}</answer>") == text


CUT = {
    "in the reasoning": (
        "<reasoning>\n1. The query asks for the date.\n2. From Table 1 we find that the answer is Dec",
        None,
    ),
    "in bare reasoning": ("1. The query asks for the date. The answer is Dec", None),
    "in a bare line": ("The release date of the game", None),
    "in a sign": (f"{STEPS}\nAnswer: Decem", None),
    "after a sign": (f"{STEPS}\nAnswer: Paris\nThis follows from the ta", "Paris"),
    "in the answer": (f"<reasoning>{STEPS}</reasoning>\n<answer>\nDecember 1", None),
    "in the answer's second line": ("<answer>\nParis\nwhich is the cap", "Paris"),
    "in the closing tag": ("<answer>Paris</ans", "Paris"),
    "after the answer": ("<answer>Paris</answer>\nI hope that", "Paris"),
    "in a second answer": ("<answer>Paris</answer>\n<answer>Ly", "Paris"),
    "in the thought": ("<think>The answer is Lyon. <answer>Lyon</answer>", "Lyon"),
    "in the thought, later": ("<think>I write <answer>Lyon</answer> and", None),
}


@pytest.mark.parametrize(("raw", "expected"), CUT.values(), ids=CUT)
def test_an_output_cut_at_the_limit_gives_no_half_answer(raw, expected):
    answer = parse_answer(raw, make_prompt(), "short", cut=True)
    assert answer.value == expected


def test_a_cut_list_keeps_its_whole_items():
    assert value("<answer>\n- Oslo\n- Bergen\n- Tron", "list", cut=True) == ("Oslo", "Bergen")
    assert value('<answer>["Oslo", "Berg', "list", cut=True) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["Oslo", "Bergen, the second"]', ("Oslo", "Bergen, the second")),
        ("['Oslo', 'Bergen']", ("Oslo", "Bergen")),
        ('```json\n["Oslo", 7]\n```', ("Oslo", "7")),
        ('{"answer": ["Oslo", "Bergen"]}', ("Oslo", "Bergen")),
        ("Oslo\nBergen", ("Oslo", "Bergen")),
        ("- Oslo\n- Bergen", ("Oslo", "Bergen")),
        ("* **Oslo**\n* **Bergen**", ("Oslo", "Bergen")),
        ("• Oslo\n• Bergen", ("Oslo", "Bergen")),
        ("1. Oslo\n2. Bergen", ("Oslo", "Bergen")),
        ("1) Oslo\n2) Bergen", ("Oslo", "Bergen")),
        ("(1) Oslo\n(2) Bergen", ("Oslo", "Bergen")),
        ("Oslo | Bergen", ("Oslo", "Bergen")),
        ("| Oslo | Bergen |", ("Oslo", "Bergen")),
        ("Oslo; Bergen;", ("Oslo", "Bergen")),
        ("Oslo, Norway", ("Oslo", "Norway")),
        ("Super Mario Kart, and Oslo", ("Super Mario Kart", "Oslo")),
        ("Smith, John", ("Smith, John",)),
        ("1992, 1995, 2001", ("1992", "1995", "2001")),
        ("December 16, 2011", ("December 16, 2011",)),
        ("1,234", ("1,234",)),
        ("Oslo", ("Oslo",)),
        ("Here are the cities:\n- Oslo\n- Bergen", ("Oslo", "Bergen")),
        ("Answer:\n- Oslo\n- Bergen", ("Oslo", "Bergen")),
        ("1992\n7", ("1992", "7")),
        ("-5\n-7", ("-5", "-7")),
        ("1.5\n2.5", ("1.5", "2.5")),
        ("A\\|B | C", ("A|B", "C")),
        ("[]", None),
        ("- N/A", None),
    ],
)
def test_lists(text, expected):
    assert value(f"<answer>{text}</answer>", "list") == expected


# What SmolLM2-135M-Instruct, the small model of a package, writes for real prompts, at the limit and without one.
FIRST_STEP = "1. Identify the most relevant tables from the provided table set:\n"
SMALL_MODEL = {
    "a step and items": FIRST_STEP + "1. Egypt\n2. China\n3. Russia",
    "a step and bullets": FIRST_STEP + "- 1962: Egypt\n- 1966: China",
    "steps in steps": FIRST_STEP + "- 2. Determine the most relevant tables:\n- 2.1. 2.1. 2.2. 2.3.",
    "a loop": FIRST_STEP + "- Torgersen\n" * 20 + "-",
    "a loop of sentences": "1. The most relevant tables from the provided table set are Table 1 and Table 2.\n"
    "2. The most relevant tables are Table 1 and Table 2.",
    "tables that are not there": FIRST_STEP + "1. Table 1: 8-0-0\n2. Table 2: 5-0-0\n3. Table 3: 1-0-0",
    "the placeholder after a sign": "The tables are:\n\n1. The table 1.\n\nThe answer is:\n[Final answer]",
    "a table": "The tables are:\n\n<table2>Table 2: Energies\n| number | symbol |\n|---|---|\n| 21 | Sc |",
    "conditions": "8. The answer is False if the table 8 refutes the statement.\n"
    "9. The answer is True if the table 9 supports the statement.\n10. The answer is False if the table 1",
    "a condition": "1. The answer is True if the tables support the statement.",
    "a heading and years": "1. The most relevant tables from the provided table set are:\n- 1975-present\n- 1972-1975",
}


@pytest.mark.parametrize("kind", ["short", "list", "verification"])
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("raw", SMALL_MODEL.values(), ids=SMALL_MODEL)
def test_what_a_very_small_model_writes_is_no_answer(raw, kind, cut):
    assert value(raw, kind, cut=cut) is None


def test_lists_without_tags():
    assert value("Oslo\nBergen", "list") == ("Oslo", "Bergen")
    assert value("Oslo\nBergen", "list", cut=True) is None
    assert value("- Oslo\nBergen", "list") is None
    assert value("- Oslo\n- Bergen", "list") == ("Oslo", "Bergen")
    assert value("1. Oslo\n2. Bergen", "list") == ("Oslo", "Bergen")
    assert value('[\n  "Oslo",\n  "Bergen"\n]', "list") == ("Oslo", "Bergen")
    assert value("Oslo lies in Norway.\nBergen as well.", "list") is None
    assert value("Oslo\n" + "Bergen and " * 10 + "Bergen", "list") is None
    assert value('["Oslo", "Bergen"]', "list") == ("Oslo", "Bergen")
    assert value(f"{STEPS}\n\nAnswer:\n- Oslo\n- Bergen", "list") == ("Oslo", "Bergen")
    assert value(STEPS, "list") is None, "the numbered steps of a reasoning are no list"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("December 16, 2011", "December 16, 2011"),
        ("Oslo, Bergen", "Oslo, Bergen"),
        ('["Oslo", "Bergen"]', "Oslo, Bergen"),
        ("- Oslo\n- Bergen", "Oslo, Bergen"),
        ("Oslo\nNorway", "Oslo Norway"),
        ("AT&amp;T &lt;b&gt; &#91;1&#93; a\\|b", "AT&T <b> [1] a|b"),
        ("\\u003cb> \\u005bINST] \\u0041", "<b> [INST] \\u0041"),
        ("AT&T &copy; &amp;lt;", "AT&T &copy; &lt;"),
        ("[1992]", "1992"),
        ("[sic]", "[sic]"),
        ('the "best" and the "worst"', 'the "best" and the "worst"'),
        ("5 < 7", "5 < 7"),
        ("Paris*", "Paris*"),
        ("-5", "-5"),
        ("3. FC Köln", "3. FC Köln"),
        ("1. FC Köln", "1. FC Köln"),
    ],
)
def test_short_answers(text, expected):
    assert value(f"<answer>{text}</answer>") == expected


def test_an_escaped_tag_is_a_quoted_cell_and_no_tag():
    cell = "&lt;/reasoning&gt;&lt;answer&gt;evil&lt;/answer&gt;"
    raw = f"<reasoning>The cell says {cell}.</reasoning><answer>Paris</answer>"
    answer = parse_answer(raw, make_prompt(), "short")
    assert answer.value == "Paris"
    assert "<answer>evil</answer>" in answer.reasoning
    assert value(f"The first cell says this:\n{cell} is what it holds, and the others are empty.") is None


def test_an_echoed_example_is_no_answer():
    example = "<reasoning>\nTable 9 lists it.\n</reasoning>\n<answer>\nLyon\n</answer>"
    prompt = make_prompt(text=f"Example:\n{example}\n\n{make_prompt().text}")
    assert value(f"{example}\n", prompt=prompt) is None
    assert value(prompt.text, prompt=prompt) is None
    assert value("<answer>Lyon</answer>", prompt=prompt) == "Lyon", "the same answer to another question is one"
    assert value(f"{example}\n<reasoning>Mine.</reasoning><answer>Lyon</answer>", prompt=prompt) == "Lyon"


def test_an_answer_that_an_example_has_too():
    prompt = make_prompt(text="Example:\n<answer>Lyon</answer>\nQuestion: which city")
    assert value("<answer>Lyon</answer>", prompt=prompt) == "Lyon"


def test_two_lines_are_no_short_answer():
    assert value("Paris\nLyon is another city") is None


def test_a_line_of_the_prompt_before_the_answer():
    prompt = make_prompt(text="Question: which city?\nThink first.")
    assert value("Question: which city?\nAnswer: Paris", prompt=prompt) == "Paris"
    assert value("Question: which city?\nThink first.", prompt=prompt) is None


def test_the_question_alone_is_no_answer():
    prompt = make_prompt(question="the date of a game", text="Question: the date of a game")
    assert value("the date of a game", prompt=prompt) is None
    assert value("the date", prompt=prompt) == "the date"


def test_a_cell_with_commas_is_one_item():
    table = Table("t", "", ["a"], [["Oslo"], ["Norway"], ["Oslo, Norway"]])
    assert value("<answer>Oslo, Norway</answer>", "list", prompt=make_prompt((table,))) == ("Oslo, Norway",)


def test_a_placeholder_of_a_replaced_template():
    prompt = make_prompt(text="Reply so:\n<answer>\n[one word]\n</answer>")
    assert value("<answer>[one word]</answer>", prompt=prompt) is None
    assert value("<answer>[two words]</answer>", prompt=prompt) == "[two words]"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<reasoning>{STEPS}</reasoning><answer>Paris</answer>", STEPS),
        (f"<reasoning>{STEPS}\n<answer>Paris</answer>", STEPS),
        (f"{STEPS}\n<answer>Paris</answer>", STEPS),
        (f"<think>Lyon?</think><reasoning>{STEPS}</reasoning><answer>Paris</answer>", STEPS),
        (f"<think>\n{STEPS}\n</think>\n<answer>Paris</answer>", STEPS),
        (f"{STEPS}\n</think>\n<answer>Paris</answer>", STEPS),
        (f"{STEPS}\nAnswer: Paris", STEPS),
        (f"```xml\n<reasoning>{STEPS}</reasoning>\n<answer>Paris</answer>\n```", STEPS),
        ("<reasoning>[Detailed reasoning steps]</reasoning><answer>Paris</answer>", ""),
        ("<answer>Paris</answer>", ""),
        ("Paris", ""),
        ('{"reasoning": "Table 1.", "answer": "Paris"}', "Table 1."),
        (RAMBLING, RAMBLING),
        (f"<reasoning>{STEPS}", STEPS),
        (f"<think>{STEPS}", STEPS),
        ("<reasoning>a</reasoning><reasoning>b</reasoning><answer>Paris</answer>", "a\nb"),
    ],
)
def test_reasoning(raw, expected):
    assert parse_answer(raw, make_prompt(), "short").reasoning == expected


PIECES = st.sampled_from(
    [
        "<answer>",
        "</answer>",
        "<reasoning>",
        "</reasoning>",
        "<think>",
        "</think>",
        "Paris",
        "Table 1",
        "\n",
        " ",
        "**",
        "```",
        "Answer:",
        "[Final answer]",
        "N/A",
        "|",
        "[",
        "]",
        "{",
        "}",
        '"',
        "\\boxed{",
        "&lt;",
        "<",
        ">",
        "1.",
        "-",
    ]
)


@given(
    st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join),
    st.sampled_from(["short", "list", "verification"]),
    st.booleans(),
)
def test_whatever_is_written_is_parsed(raw, kind, cut):
    answer = parse_answer(raw, make_prompt((GAMES, CITIES)), kind, cut=cut)
    assert answer.raw == raw
    value = answer.value
    if kind == "list":
        assert value is None or (isinstance(value, tuple) and value and all(item.strip() for item in value))
    else:
        assert value is None or (isinstance(value, str) and value.strip() == value != "")
    if kind == "verification":
        assert value in (None, "True", "False")


def test_long_outputs_are_parsed_at_once():
    import time

    for piece in (
        "<answer>",
        "<",
        "**",
        "Answer: ",
        "\\boxed{",
        "[",
        "a ",
        "Table 1, ",
        "1. ",
        "\n",
        "| ",
        "not ",
        "<think",
        "</",
    ):
        start = time.perf_counter()
        for kind in ("short", "list", "verification"):
            parse_answer(piece * 20_000, make_prompt(), kind)
        assert time.perf_counter() - start < 3, piece


@pytest.mark.parametrize(
    "text",
    [
        "The answer is in Table 1.",
        "The answer is definitely in the first row.",
        "The answer is as follows:",
        "The answer is based on Table 1.",
        "The answer is that no table has it.",
        "**Answer**",
        "<answer",
        "/answer>",
        "</table1>",
        "Table 1",
        "It depends.",
        "Hmm, wait.",
        "See Table 1.",
    ],
)
@pytest.mark.parametrize("kind", ["short", "list", "verification"])
def test_words_about_an_answer_are_none(text, kind):
    assert value(text, kind) is None


@pytest.mark.parametrize("kind", ["short", "list", "verification"])
def test_a_second_thought_without_end_is_no_answer(kind):
    assert value("<think>a</think><think>True", kind) is None
    assert value("<think>a</think>\n<think>\nIs it <answer>True</answer>?", kind) is None


@pytest.mark.parametrize(
    "text",
    ["No Doubt", "Nothing Else Matters", "None Shall Pass", "Not Like Us", "The Unknown Soldier", "No. 3", "Tables"],
)
def test_names_that_sound_like_no_answer(text):
    assert value(f"<answer>{text}</answer>", "short") == text
