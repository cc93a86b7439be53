"""Tasks with answers, and models that answer by the question in the prompt: what tests of scoring answers share."""

import re
from dataclasses import replace

from task_fakes import make_task

from gtr_gpu.language_models.model import Completion, ModelError
from gtr_gpu.prompts.tokens import EstimatedCounter

CANARY = "quillwort"


def make_answer_task(labels, name="made", protocol="published", **options):
    """A task whose questions get labels by their number, from a function; () is no public answer."""
    task = make_task(name=name, protocol=protocol, **options)
    return replace(
        task,
        questions=tuple(replace(one, label=labels(number)) for number, one in enumerate(task.questions)),
        raw=tuple(replace(one, label=labels(number)) for number, one in enumerate(task.raw)),
    )


def canaries(number):
    """A label that stands in no table, and none for each fourth question."""
    return () if number % 4 == 3 else (f"{CANARY} {number}",)


class FakeModel:
    """Answers by a function of the question; keeps all prompts.

    Attributes:
        prompts: All that it was asked.
        breaks_after: Raises KeyboardInterrupt instead of more completions than this.
    """

    name = "fake-1"
    window = None

    def __init__(self, answer, breaks_after=None):
        self.answer = answer
        self.tokens = EstimatedCounter()
        self.prompts = []
        self.breaks_after = breaks_after

    def complete(self, prompts, max_new_tokens):
        for number, prompt in enumerate(prompts):
            if self.breaks_after is not None and len(self.prompts) >= self.breaks_after:
                raise KeyboardInterrupt
            self.prompts.append(prompt)
            yield number, self._completion(prompt)

    def stream(self, prompt, max_new_tokens, show):
        raise NotImplementedError

    def _completion(self, prompt):
        answer = self.answer(question_of(prompt))
        if isinstance(answer, ModelError):
            if answer.fatal:
                raise answer
            return answer
        cites = "<reasoning>\n1. Table 1 has it.\n</reasoning>\n" if "<reasoning>" in prompt else ""
        return Completion(f"{cites}<answer>\n{answer}\n</answer>", "stop", 700, 9, 0.5)


def question_of(prompt):
    """The question that a prompt asks."""
    return re.findall(r"^Question: (.*)$", prompt, re.MULTILINE)[-1]


def oracle(task, wrong=lambda number: False):
    """Answers each question as its label has it, an item a line; NA where `wrong` says so of its number."""
    known = {one.text: (number, one.label) for asked in (task.raw, task.questions) for number, one in enumerate(asked)}

    def answer(question):
        number, label = known[question]
        return "NA" if wrong(number) else "\n".join(label)

    return answer
