"""Counts by tokenizers are the tokenizers' own; the estimate is above them on real tables, and not far."""

import itertools
import json
import statistics
from importlib.util import find_spec

import pytest
import zstandard
from prompts_words import Words

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts import PromptSettings, build_prompt
from gtr_gpu.prompts.settings import TABLE_FORMATS
from gtr_gpu.prompts.tokens import EstimatedCounter, TokenizerCounter, load_tokenizer
from gtr_gpu.tables.table import Table

SETS = ("tabfact", "hybridqa", "wtq", "sqa", "tatqa")


def test_a_chat_template_is_counted(chat):
    tokenizer = chat._tokenizer
    messages = [{"role": "user", "content": "How many?"}]
    whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)
    assert chat.prompt_tokens("How many?") == len(whole["input_ids"])
    assert chat.count(["How many?", ""]) == [len(tokenizer("How many?", add_special_tokens=False)["input_ids"]), 0]
    assert chat.count([]) == []


def test_without_a_chat_template_special_tokens_are_counted(minilm):
    assert (minilm.name, minilm.exact) == ("minilm", True)
    assert minilm.prompt_tokens("one two") == 4  # [CLS] one two [SEP]
    assert minilm.count(["one two"]) == [2]
    assert minilm.count(["one " * 5000]) == [5000]  # its window cuts nothing


def test_a_chat_template_that_takes_no_user_is_told():
    class Tokenizer:
        chat_template = "x"

        def apply_chat_template(self, messages, **options):
            raise ValueError("no user here")

    with pytest.raises(GTRError, match=r"the chat template of x can't be used \(no user here\)"):
        TokenizerCounter(Tokenizer(), "x").prompt_tokens("text")


def test_a_missing_package_is_told(tmp_path, monkeypatch):
    (tmp_path / "a.gguf").touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None if name == "gguf" else find_spec(name))
    with pytest.raises(GTRError, match=r"the package gguf reads it, which isn't installed \(pip install gguf\)"):
        load_tokenizer(tmp_path / "a.gguf")


def test_a_tokenizer_that_is_not_there_is_one_sentence(tmp_path):
    for name in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(GTRError) as caught:
            load_tokenizer(name)
        assert str(caught.value).startswith(f"the tokenizer '{name}' can't be had: ")
        assert "\n" not in str(caught.value)


def prompts(folder, table_format):
    """Prompts of real tables, five of them each."""
    for name in SETS:
        with zstandard.open(folder / name / "tables.jsonl.zst", "rt", encoding="utf-8") as lines:
            read = [json.loads(line) for line in itertools.islice(lines, 0, 250, 10)]
        tables = [Table(one["table_id"], one["caption"], one["header"], one["rows"]) for one in read]
        for start in range(0, len(tables), 5):
            settings = PromptSettings(prompt_tokens=2500, table_format=table_format)
            yield build_prompt("What is the largest?", tables[start : start + 5], [], settings, Words()).text


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_the_estimate_is_above_the_counts_and_not_far(shared_data, chat, table_format):
    texts = list(prompts(shared_data, table_format))
    larger = [EstimatedCounter().prompt_tokens(text) / chat.prompt_tokens(text) for text in texts]
    assert min(larger) > 1
    # Byte pairs are more tokens than word pieces, and the estimate is to be above both.
    assert statistics.median(larger) < (1.4 if chat.name == "smollm2" else 1.7)


OTHER_TEXTS = """\
Население города составляет 1 234 567 человек
東京都の人口は約千四百万人である
ประชากรของกรุงเทพมหานคร
여러 도시의 인구는 다음과 같다
عدد سكان المدينة
भारत की जनसंख्या
Łódź – Kraków, Zürich, Straße
😀🎉🏴
2019-08-30 12:45:10.233
$ 1,452.4 (23.5%)
http://www.x-y.org/a_b?c=d&e=1
Arnold Schwarzenegger of Thal, Styria"""


@pytest.mark.parametrize("text", OTHER_TEXTS.splitlines())
def test_the_estimate_is_above_the_counts_in_other_scripts(chat, text):
    many = "\n".join([text] * 10)
    assert EstimatedCounter().count([many])[0] >= chat.count([many])[0]


def test_the_estimate_of_nothing():
    assert EstimatedCounter().count(["", " ", "a"]) == [0, 0, 2]
    assert EstimatedCounter().count([]) == []
