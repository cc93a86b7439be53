"""A run of answers in a process of its own, to be killed: each question that the model is asked is a line of a file."""

import hashlib
import sys
import time
from pathlib import Path

from index_fakes import install
from pytest import MonkeyPatch
from scoring_fakes import FakeModel, canaries, make_answer_task, oracle

from gtr_gpu import config
from gtr_gpu.evaluation.answering.plan import AnswerPlan
from gtr_gpu.evaluation.answering.runner import answer

PLAN = AnswerPlan(cuts=(3,), variants=("full", "no-relations"), split="all")


class Slow(FakeModel):
    """Takes its time, and tells what it is asked before it answers."""

    def __init__(self, answer, asked):
        super().__init__(answer)
        self.asked = asked

    def _completion(self, prompt):
        completion = super()._completion(prompt)
        with self.asked.open("a") as file:
            file.write(f"{hash_of(prompt)}\n")
        time.sleep(0.02)
        return completion


def hash_of(prompt):
    """A name for a prompt that is the same in all processes."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def main(folder):
    """Answers the task in a folder."""
    with MonkeyPatch.context() as patch:
        install(patch)
        few = {"spacy_model": "blank:en", "kmeans_iterations": 25, "kmeans_starts": 2}
        for name, knobs in config.PRESETS.items():
            patch.setitem(config.PRESETS, name, knobs | few)
        model = Slow(oracle(make_answer_task(canaries)), folder / "asked")
        for record in answer(folder / "made", folder / "out", PLAN, model):
            sys.stdout.write(f"{record['variant']} {record['asked_questions']} {record['metrics']['EM'][0]}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
