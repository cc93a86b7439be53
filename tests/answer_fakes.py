"""Prompts and models that need no model: what the tests of answers share."""

import threading
import time

from gtr_gpu.answers.parse import parse_answer
from gtr_gpu.language_models.model import Completion, ModelError
from gtr_gpu.prompts.prompt import Prompt, PromptTable
from gtr_gpu.tables import Table

GAMES = Table(
    "games.csv",
    "Mario Kart games",
    ["Game Title", "Release Date", "Units"],
    [
        ["Super Mario Kart", "August 27, 1992", "1"],
        ["Mario Kart Advance", "December 16, 2011", "2"],
        ["Mario Kart 7", "December 4, 2011", "1"],
    ],
)
CITIES = Table("cities.csv", "Cities", ["City", "Nation", "People"], [["Oslo", "Norway", "700,000"]])

FORM = """## Question:
{question}
# Now Output Your response below:
<reasoning>
[Detailed reasoning steps]
</reasoning>
<answer>
[Final answer]
</answer>
"""

# The reasoning of an output, and one that comes to no answer.
STEPS = "1. Table 1 lists it.\n2. The entry is Paris."
RAMBLING = (
    "The table shows many games. Among them are Super Mario Kart and Mario Kart 7, and each has a date of release.\n"
    "To find the date one has to look at the second column. It holds several dates of which one belongs to the game."
)


def make_prompt(tables=(GAMES, CITIES), question="When was Mario Kart Advance released?", text=None, rows=None):
    """A prompt of whole tables, or of the rows told."""
    shown = tuple(
        PromptTable(number, table, tuple(range(len(table.rows))) if rows is None else rows)
        for number, table in enumerate(tables, 1)
    )
    text = FORM.format(question=question) if text is None else text
    return Prompt(question, text, shown, (), 0, len(text.split()), "words")


def value(raw, kind="short", cut=False, prompt=None):
    """The answer that an output gives."""
    return parse_answer(raw, prompt or make_prompt(), kind, cut=cut).value


class WordCounter:
    """Takes a word for a token."""

    name = "words"
    exact = True

    def prompt_tokens(self, text):
        return len(text.split())

    def count(self, texts):
        return [len(text.split()) for text in texts]


class FakeModel:
    """Answers every prompt as told, and records what it was asked.

    Args:
        reply: Makes an output, or an error, of a prompt and its number.
        seconds: Waits as long before each answer.
    """

    name = "fake"
    window = None

    def __init__(self, reply=lambda prompt, number: "<answer>x</answer>", seconds=0.0, window=None):
        self.tokens = WordCounter()
        self.reply, self.seconds, self.window = reply, seconds, window
        self.asked = []
        self.limits = []
        self.lock = threading.Lock()

    def complete(self, prompts, max_new_tokens):
        for number, prompt in enumerate(prompts):
            yield number, self._one(prompt, number, max_new_tokens)

    def stream(self, prompt, max_new_tokens, show):
        done = self._one(prompt, 0, max_new_tokens)
        if isinstance(done, ModelError):
            raise done
        for start in range(0, len(done.text), 3):
            show(done.text[start : start + 3])
        return done

    def _one(self, prompt, number, max_new_tokens):
        with self.lock:
            self.asked.append(prompt)
            self.limits.append(max_new_tokens)
        time.sleep(self.seconds)
        reply = self.reply(prompt, number)
        if isinstance(reply, ModelError) and reply.fatal:
            raise reply
        if isinstance(reply, BaseException):
            return reply
        return Completion(reply, "stop", len(prompt.split()), len(reply.split()), 0.25)
