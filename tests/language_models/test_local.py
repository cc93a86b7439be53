"""A model that transformers runs here: equal alone and in batches, bounded, and told plainly when it can't be had."""

import json
import logging
from importlib.util import find_spec

import pytest
import torch
from tiny_model import make
from transformers import AutoModelForCausalLM

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models import local, model_files
from gtr_gpu.language_models.local import LocalModel
from gtr_gpu.language_models.model import Completion, ModelError

PROMPTS = [f"{'the story of a king ' * (number % 5)}what is row {number}?" for number in range(17)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("models") / "tiny-chat")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(folder):
    return LocalModel.load(str(folder), device="cpu", precision="float32")


def by_hand(folder, model, prompt, count):
    """The most likely token each time, by whole passes without a cache."""
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = model._encode(prompt)
    written = []
    with torch.inference_mode():
        for _ in range(count):
            written.append(int(plain(torch.tensor([ids + written])).logits[0, -1].argmax()))
            if written[-1] in model._ends:
                break
    return written


def test_a_completion_is_the_most_likely_tokens(folder, model):
    ((number, done),) = model.complete(["what is the capital of France?"], 12)
    written = by_hand(folder, model, "what is the capital of France?", 12)
    assert number == 0
    assert done.text == model._tokenizer.decode(written, skip_special_tokens=True)
    assert done.completion_tokens == len(written)
    assert done.prompt_tokens == model.tokens.prompt_tokens("what is the capital of France?")
    assert done.seconds > 0


def test_a_batch_equals_its_loop(model):
    alone = {number: next(model.complete([prompt], 16))[1] for number, prompt in enumerate(PROMPTS)}
    together = dict(model.complete(iter(PROMPTS), 16))
    assert sorted(together) == list(range(17))
    assert len({one.text for one in alone.values()}) > 10
    assert {number: one.text for number, one in together.items()} == {number: one.text for number, one in alone.items()}
    assert {one.finish_reason for one in together.values()} <= {"stop", "length"}


def test_rows_stop_where_their_answer_ends(folder):
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    written = {prompt: by_hand(folder, model, prompt, 16) for prompt in PROMPTS[:6]}
    # A token in the middle of one answer becomes an end: the others go on.
    model._ends |= {written[PROMPTS[2]][4]}
    done = dict(model.complete(PROMPTS[:6], 16))
    assert done[2].finish_reason == "stop"
    assert done[2].completion_tokens == 1 + written[PROMPTS[2]].index(written[PROMPTS[2]][4])
    for number, one in done.items():
        tokens = written[PROMPTS[number]]
        end = next((place for place, token in enumerate(tokens) if token in model._ends), None)
        assert one.completion_tokens == (16 if end is None else end + 1)
        assert one.text == model._tokenizer.decode(tokens[: one.completion_tokens], skip_special_tokens=True)
        assert one.finish_reason == ("length" if end is None else "stop")


def test_a_stream_is_what_a_completion_is(model):
    shown = []
    streamed = model.stream(PROMPTS[3], 16, shown.append)
    completed = next(model.complete([PROMPTS[3]], 16))[1]
    assert "".join(shown) == streamed.text == completed.text
    assert len(shown) > 1
    assert streamed.finish_reason == completed.finish_reason
    assert streamed.completion_tokens == completed.completion_tokens


def test_prompts_are_taken_a_few_batches_at_a_time(folder, monkeypatch):
    monkeypatch.setattr(local, "_CPU_BATCH", 2)
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    taken = []
    generator = model.complete((taken.append(number) or f"row {number}" for number in range(1000)), 2)
    next(generator)
    assert len(taken) == 8


def test_batches_are_bounded_by_their_tokens(folder, monkeypatch):
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    sizes, generate = [], model._generate
    monkeypatch.setattr(
        model,
        "_generate",
        lambda batch, *rest: sizes.append((len(batch), max(len(one.ids) for one in batch))) or generate(batch, *rest),
    )
    model._batch_tokens = 150
    assert len(list(model.complete(PROMPTS, 8))) == 17
    assert all(size == 1 or size * (longest + 8) <= 150 for size, longest in sizes)
    assert max(size for size, _ in sizes) > 1


def test_the_bound_comes_from_the_memory_of_a_token(model):
    # Two layers, keys and values of two heads of eight numbers, and what passes a layer of 64 and 32.
    assert local._token_bytes(model._model) == (2 * 2 * 2 * 8 + 4 * 64 + 8 * 32) * 4


def test_where_memory_runs_out_a_batch_is_halved(folder, monkeypatch):
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    expected = {number: one.text for number, one in model.complete(PROMPTS[:9], 4)}
    sizes, generate = [], model._generate

    def small(batch, *rest):
        sizes.append(len(batch))
        if len(batch) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return generate(batch, *rest)

    monkeypatch.setattr(model, "_generate", small)
    assert {number: one.text for number, one in model.complete(PROMPTS[:9], 4)} == expected
    assert sizes[:3] == [9, 4, 2]
    monkeypatch.setattr(model, "_generate", lambda *rest: generate(None))
    with pytest.raises(TypeError):
        list(model.complete(PROMPTS[:2], 4))


def test_a_prompt_that_is_too_much_for_the_memory(model, monkeypatch):
    def never(batch, *rest, **options):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory")

    monkeypatch.setattr(model, "_generate", never)
    ((_, done),) = model.complete(["what?"], 4)
    assert "the memory is too small for tiny-chat with a prompt of" in str(done)
    with pytest.raises(ModelError, match="lower prompt_tokens or max_new_tokens, or take a smaller model"):
        model.stream("what?", 4, lambda text: None)


def test_prompts_longer_than_the_window(model):
    assert model.window == 128
    done = dict(model.complete(["what?", "king " * 200, "which?"], 28))
    assert isinstance(done[0], Completion)
    assert isinstance(done[2], Completion)
    assert not done[1].fatal
    number = model.tokens.prompt_tokens("king " * 200)
    said = (
        f"the prompt has {number} tokens and tiny-chat takes 128 in all; lower prompt_tokens to 100, or max_new_tokens"
    )
    assert str(done[1]) == said
    with pytest.raises(ModelError, match="takes 128 in all"):
        model.stream("king " * 200, 28, lambda text: None)


def test_a_prompt_that_fills_the_window(model):
    left = 128 - model.tokens.prompt_tokens("what?")
    assert isinstance(next(model.complete(["what?"], left))[1], Completion)
    assert isinstance(next(model.complete(["what?"], left + 1))[1], ModelError)


@pytest.mark.parametrize(("limit", "said"), [(0, "at least 1"), (128, "below the 128 tokens"), (500, "below the 128")])
def test_limits_of_new_tokens(model, limit, said):
    with pytest.raises(GTRError, match=f"max_new_tokens must be {said}"):
        list(model.complete(["what?"], limit))
    with pytest.raises(GTRError, match=f"max_new_tokens must be {said}"):
        model.stream("what?", limit, lambda text: None)


def test_without_a_chat_template_the_prompt_is_bare(tmp_path):
    folder = make(tmp_path / "bare", template=None, pad=False)
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    assert model._encode("the king") == model._tokenizer("the king")["input_ids"]
    done = dict(model.complete(["the king", "", "the longest river of France"], 5))
    assert done[0].prompt_tokens == model.tokens.prompt_tokens("the king")
    assert "the prompt has no tokens" in str(done[1])
    alone = next(model.complete(["the king"], 5))[1]
    assert alone.text == done[0].text


def test_sampling_that_the_authors_set_is_not_done(folder, tmp_path, recwarn):
    import shutil

    copy = tmp_path / "sampling"
    shutil.copytree(folder, copy)
    settings = json.loads((copy / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 5.0, "top_k": 3, "top_p": 0.5, "max_length": 10}
    (copy / "generation_config.json").write_text(json.dumps(settings))
    sampling = LocalModel.load(str(copy), device="cpu", precision="float32")
    plain = LocalModel.load(str(folder), device="cpu", precision="float32")
    assert next(sampling.complete(["what?"], 20))[1].text == next(plain.complete(["what?"], 20))[1].text
    assert not recwarn.list


def test_loading_and_asking_says_nothing(folder, capfd, caplog):
    caplog.set_level(logging.INFO)
    list(LocalModel.load(str(folder), device="cpu").complete(PROMPTS[:3], 4))
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_bfloat16_goes(folder):
    model = LocalModel.load(str(folder), device="cpu", precision="bfloat16")
    assert next(model._model.parameters()).dtype == torch.bfloat16
    assert isinstance(next(model.complete(["what?"], 4))[1], Completion)


@pytest.mark.gpu
def test_a_gpu_gives_the_same(folder, model):
    there = LocalModel.load(str(folder), device="cuda", precision="float32")
    expected = {number: one.text for number, one in model.complete(PROMPTS, 16)}
    same = sum(expected[number] == one.text for number, one in there.complete(PROMPTS, 16))
    assert same >= len(PROMPTS) - 1
    assert LocalModel.load(str(folder))._model.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./no/such/folder", "there is no model './no/such/folder' on this machine"),
        ("nosuchname", "there is no model 'nosuchname' on this machine"),
        ("../x/y", "there is no model"),
    ],
)
def test_models_that_are_not_there(name, said):
    with pytest.raises(GTRError, match=f"{said}.*; give a folder, a GGUF file or a name on the hub, or base_url"):
        LocalModel.load(name)


def test_the_hub_is_asked_for_a_short_time(monkeypatch):
    def unreachable(*arguments, timeout, **options):
        assert timeout <= 5
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    with pytest.raises(GTRError, match=r"'some/model' isn't on this machine and can't be had \(ConnectionError\)"):
        LocalModel.load("some/model")
    assert not model_files.is_on_hub("some/model", ("tokenizer.json",))


def test_folders_that_are_no_models(tmp_path, folder, monkeypatch):
    with pytest.raises(GTRError, match=r"has no config\.json"):
        LocalModel.load(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(GTRError, match=r"can't be had|can't be loaded"):
        LocalModel.load(str(tmp_path))
    (tmp_path / "a.gguf").write_bytes(b"GGUF nonsense")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None if name == "accelerate" else find_spec(name))
    with pytest.raises(GTRError, match=r"a\.gguf is read by the packages gguf and accelerate; pip install accelerate$"):
        LocalModel.load(str(tmp_path / "a.gguf"))
    monkeypatch.undo()
    with pytest.raises(GTRError, match="can't be read as a model"):
        LocalModel.load(str(tmp_path / "a.gguf"))


def test_pickles_are_not_read(folder, tmp_path):
    import shutil

    copy = tmp_path / "pickled"
    shutil.copytree(folder, copy)
    (copy / "model.safetensors").unlink()
    torch.save(AutoModelForCausalLM.from_pretrained(folder).state_dict(), copy / "pytorch_model.bin")
    with pytest.raises(GTRError, match="it must be a language model with weights as safetensors"):
        LocalModel.load(str(copy))


def test_code_of_a_model_is_not_run(folder, tmp_path):
    import shutil

    copy = tmp_path / "coded"
    shutil.copytree(folder, copy)
    settings = json.loads((copy / "config.json").read_text())
    settings |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (copy / "config.json").write_text(json.dumps(settings))
    (copy / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(GTRError):
        LocalModel.load(str(copy))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [({"device": "tpu"}, "device must be auto"), ({"precision": "int8"}, "precision must be auto")],
)
def test_arguments_are_checked(folder, options, said):
    with pytest.raises(GTRError, match=said):
        LocalModel.load(str(folder), **options)
