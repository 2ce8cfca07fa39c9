"""What is read from the files of a model are the numbers of the model that transformers saved there."""

import json
import re
import socket
import struct
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from posenc_lib.configs import Unreadable, checkpoints, learned_table, projections, scheme_of, t5_bias
from posenc_lib.schemes.t5 import relative_position_bucket
from posenc_lib.view import weights as drawn

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
CLOSE = {"rtol": 0, "atol": 1e-5}
SMALL = {
    "vocab_size": 50,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
TABLES = {
    "gpt2": {},
    "openai-gpt": {},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "num_layers": 4, "num_heads": 4},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 64},
    "bert": {},
    "electra": {"embedding_size": 32},
    "distilbert": {"n_layers": 4, "n_heads": 4, "dim": 64},
    "roberta": {"pad_token_id": 1},
}
ROTATIONS = {
    "llama": {"rope_theta": 500.0},
    "llama, wide heads": {"head_dim": 24},
    "llama, with biases": {"attention_bias": True, "num_key_value_heads": 1},
    "mistral": {"sliding_window": 5},
    "mixtral": {},
    "starcoder2": {},
    "qwen2": {},
    "gemma2": {"head_dim": 16},
    "gpt_oss": {"head_dim": 16, "num_local_experts": 4},
    "phi": {},
    "stablelm": {},
    "smollm3": {},
    "cohere2": {},
    "gptj": {"rotary_dim": 8},
    "gpt_neox": {"rotary_pct": 0.5, "rotary_emb_base": 1000},
    "phi3": {"partial_rotary_factor": 0.5},
}


def model_of(name, **others):
    """A small random model, whose biases are not zero."""
    others = TABLES.get(name, {}) | ROTATIONS.get(name, {}) | others
    config = transformers.AutoConfig.for_model(name.split(",")[0], **SMALL | others)
    config._attn_implementation = "eager"
    model = transformers.AutoModel.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(5)  # or all scores are close to 0
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) / 4)
    return model


def saved(model, folder, sharded=False):
    model.save_pretrained(folder, **({"max_shard_size": "20KB"} if sharded else {}))
    assert (folder / "model.safetensors.index.json").exists() == sharded
    return folder


def load(folder):
    """All tensors, in memory; those of load_file live in the file."""
    return {name: value.clone() for name, value in load_file(folder / "model.safetensors").items()}


SAVES = pytest.mark.parametrize("sharded", [False, True], ids=["one file", "several"])


@SAVES
@pytest.mark.parametrize("name", TABLES)
def test_learned_table(name, sharded, tmp_path):
    model = model_of(name)
    (theirs,) = (
        part for part in model.modules() if isinstance(part, torch.nn.Embedding) and 39 < len(part.weight) < 45
    )
    scheme = learned_table(saved(model, tmp_path, sharded))
    first = {"opt": 2, "roberta": 2}.get(name, 0)
    assert torch.equal(scheme.table, theirs.weight[first:])
    assert scheme.max_length == len(scheme.table) == 40 - (2 if name == "roberta" else 0)
    assert scheme.embed(torch.zeros(1, 3, scheme.dim), torch.arange(3)).equal(theirs.weight[None, first : first + 3])


def test_a_table_outlives_its_file(tmp_path):
    model = model_of("gpt2")
    scheme = learned_table(saved(model, tmp_path))
    (tmp_path / "model.safetensors").write_bytes(bytes((tmp_path / "model.safetensors").stat().st_size))
    assert torch.equal(scheme.table, model.wpe.weight)


def test_a_table_under_the_name_that_a_whole_language_model_gives_it(tmp_path):
    model = transformers.GPT2LMHeadModel(model_of("gpt2").config)
    assert torch.equal(learned_table(saved(model, tmp_path)).table, model.transformer.wpe.weight)


@SAVES
@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_t5_bias(kind, sharded, tmp_path):
    others = {"num_layers": 2, "num_decoder_layers": 3, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 48}
    others |= {"relative_attention_num_buckets": 16, "relative_attention_max_distance": 40, "vocab_size": 200}
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **others))
    saved(model, tmp_path, sharded)
    for decoder, half in ((False, model.encoder), (True, model.decoder)):
        scheme, attention = t5_bias(tmp_path, decoder), half.block[0].layer[0].SelfAttention
        assert torch.equal(scheme.weight, attention.relative_attention_bias.weight)
        r = torch.arange(-50, 1)
        assert torch.equal(scheme.distance_bias(r), scheme.weight[relative_position_bucket(r, not decoder, 16, 40)].T)
        whole = attention.compute_bias(51, 51)[0]
        assert torch.equal(scheme.distance_bias(r), whole[:, -1])


def watched(model):
    """The inputs of the attention of each layer, in their order."""
    parts = {"q_proj", "qkv_proj", "query_key_value"}
    said = []
    for module in model.modules():
        if parts & {name for name, _ in module.named_children()}:
            module.register_forward_pre_hook(
                lambda part, x, named: said.append((part, named.get("hidden_states", x[0] if x else None))),
                with_kwargs=True,
            )
    return said


@torch.no_grad()
@SAVES
@pytest.mark.parametrize("name", ROTATIONS)
def test_projections(name, sharded, tmp_path):
    model = model_of(name)
    said = watched(model)
    expected = model(torch.randint(2, 50, (2, 13)), output_attentions=True).attentions
    config = json.loads((saved(model, tmp_path, sharded) / "config.json").read_text())
    assert len(said) == len(expected) == 4
    for layer, (part, x) in enumerate(said):
        reading = scheme_of(config, layer)
        if not reading.scheme.places:
            with pytest.raises(Unreadable, match=f"layer {layer} of .* has no plain rotation: its scheme is none"):
                projections(tmp_path, layer)
            continue
        made = projections(tmp_path, layer)
        assert repr(made.scheme) == repr(reading.scheme)
        sinks = part.sinks if reading.sinks else None
        weights = reading.weights(made.queries(x), made.keys(x), sinks=sinks)
        torch.testing.assert_close(weights, expected[layer], **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", ["llama", "llama, with biases", "gptj", "gpt_neox", "phi3"])
def test_norms_of_pairs_are_lengths_of_what_a_pair_turns(name, tmp_path):
    made = projections(saved(model_of(name), tmp_path), layer=1)
    x = torch.randn(1, 20_000, 64)
    x = (x - x.mean(1)) @ torch.linalg.inv(torch.linalg.cholesky(x[0].T.cov())).mT  # variance 1, exactly
    r = 2 * len(made.scheme.inv_freq)
    for norms, y, size in zip(made.pair_norms(), (made.queries(x), made.keys(x)), (4, len(made.k)), strict=True):
        turned = y[0].unflatten(0, (size, -1))[:, 0, :, :r]
        first = torch.arange(0, r, 2) if made.scheme.layout == "interleaved" else torch.arange(r // 2)
        other = first + (1 if made.scheme.layout == "interleaved" else r // 2)
        lengths = (turned[..., first].square() + turned[..., other].square()).mean(1).sqrt()
        torch.testing.assert_close(norms, lengths, rtol=1e-2, atol=0)


@pytest.mark.parametrize(
    "name, others",
    [
        ("qwen3", {"head_dim": 16}),
        ("gemma3_text", {"head_dim": 16}),
        ("olmo2", {}),
        ("phi", {"qk_layernorm": True}),
        ("stablelm", {"qk_layernorm": True}),
        ("llama4_text", {"head_dim": 16, "num_local_experts": 2, "intermediate_size_mlp": 48}),
    ],
)
def test_queries_that_are_normalised_are_refused(name, others, tmp_path):
    saved(model_of(name, **others), tmp_path)
    with pytest.raises(Unreadable, match=r"layer 0 of .* normalises its queries"):
        projections(tmp_path, 0)


def test_only_what_is_asked_for_is_read(tmp_path):
    """A tensor of 4 GiB, a hole in the file, stands after the table."""
    resource = pytest.importorskip("resource")

    def most():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    saved(model_of("gpt2"), tmp_path)
    table = load(tmp_path)["wpe.weight"]
    end = table.numel() * 4
    header = {
        "wpe.weight": {"dtype": "F32", "shape": list(table.shape), "data_offsets": [0, end]},
        "wte.weight": {"dtype": "F32", "shape": [2**24, 64], "data_offsets": [end, end + 2**32]},
    }
    text = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + table.numpy().tobytes())
        file.truncate(8 + len(text) + end + 2**32)
    before = most()
    assert torch.equal(learned_table(tmp_path).table, table)
    assert most() - before < 2**28


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats(dtype, tmp_path):
    model = model_of("llama").to(dtype)
    made = projections(saved(model, tmp_path), 0)
    assert made.q.dtype == torch.float32
    assert torch.equal(made.q.flatten(0, 1), model.layers[0].self_attn.q_proj.weight.float())


def test_other_shards_need_not_be_there(tmp_path):
    saved(model_of("gpt2"), tmp_path, sharded=True)
    files = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    for name in set(files.values()) - {files["wpe.weight"]}:
        (tmp_path / name).unlink()
    assert learned_table(tmp_path).table.shape == (40, 64)


def rewrite(folder, **tensors):
    """Put tensors in, or take them out."""
    kept = load(folder) | tensors
    save_file({name: value for name, value in kept.items() if value is not None}, folder / "model.safetensors")


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


INDEX = "model.safetensors.index.json"
BROKEN = {
    "cut": (cut, "cannot be read as a safetensors file: Error"),
    "no safetensors": (
        text("model.safetensors", "version https://git-lfs.github.com/spec/v1\n"),
        "cannot be read as a",
    ),
    "empty": (text("model.safetensors", ""), "cannot be read as a safetensors"),
    "no file": (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    "config no JSON": (text("config.json", "{"), "config.json of .* is no JSON"),
    "config deep": (text("config.json", "[" * 100_000), "config.json of .* is no JSON"),
    "config a list": (text("config.json", "[]"), "must be an object, got list"),
    "config unknown": (text("config.json", '{"model_type": "x"}'), "config.json of .* must be one of"),
    "no table": (lambda folder: rewrite(folder, **{"wpe.weight": None}), "must have one tensor wpe.weight or .* none"),
    "two tables": (lambda folder: rewrite(folder, **{"a.wpe.weight": torch.zeros(1)}), "several: .'a.wpe.weight', 'w"),
    "shape": (lambda folder: rewrite(folder, **{"wpe.weight": torch.zeros(39, 64)}), "must be 40 x 64, got 39 x 64"),
    "axes": (lambda folder: rewrite(folder, **{"wpe.weight": torch.zeros(40)}), "must be 40 x 64, got 40"),
    "integers": (lambda folder: rewrite(folder, **{"wpe.weight": torch.zeros(40, 64).char()}), "one of F16.* got I8"),
    "index no JSON": (text(INDEX, "\x00"), "index.json of .* is no JSON"),
    "index empty": (text(INDEX, "{}"), "does not say in which file"),
    "index leads out": (text(INDEX, '{"weight_map": {"wpe.weight": "../x.safetensors"}}'), "does not say in which"),
    "index to numbers": (text(INDEX, '{"weight_map": {"wpe.weight": 1}}'), "does not say in which file"),
    "index to nothing": (text(INDEX, '{"weight_map": {"wpe.weight": "y"}}'), "has no y"),
    "index wrong": (text(INDEX, '{"weight_map": {"x.wpe.weight": "model.safetensors"}}'), "does not hold x.wpe.weight"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused_in_words(name, tmp_path):
    damage, words = BROKEN[name]
    damage(saved(model_of("gpt2"), tmp_path))
    start = time.monotonic()
    with pytest.raises(Unreadable, match=words) as caught:
        learned_table(tmp_path)
    assert "\n" not in str(caught.value) and time.monotonic() - start < 2


@pytest.mark.parametrize(
    "name, part, shape, words",
    [
        ("llama", "self_attn.q_proj.weight", (63, 64), "must be 64 x 64, got 63 x 64"),
        ("llama", "self_attn.k_proj.weight", (32, 63), "must be [?] x 64, got 32 x 63"),
        ("llama", "self_attn.k_proj.weight", (24, 64), "24 rows for keys, no groups of 4 heads of 16"),
        ("llama", "self_attn.k_proj.weight", (48, 64), "48 rows for keys"),
        ("llama", "self_attn.k_proj.weight", (0, 64), "0 rows for keys"),
        ("llama", "self_attn.q_proj.bias", (63,), "must be 64, got 63"),
        ("phi3", "self_attn.qkv_proj.weight", (127, 64), "63 rows for keys"),
        ("phi3", "self_attn.qkv_proj.weight", (20, 64), "0 rows for keys"),
        ("gpt_neox", "attention.query_key_value.weight", (128, 64), "must be 192 x 64, got 128 x 64"),
    ],
)
def test_wrong_shapes_of_projections(name, part, shape, words, tmp_path):
    rewrite(saved(model_of(name), tmp_path), **{f"layers.0.{part}": torch.zeros(shape)})
    with pytest.raises(Unreadable, match=words):
        projections(tmp_path, 0)
    projections(tmp_path, 1)


def test_what_is_not_there_is_refused(tmp_path):
    saved(model_of("llama"), tmp_path)
    with pytest.raises(Unreadable, match="has no learned table: its scheme is RoPE"):
        learned_table(tmp_path)
    with pytest.raises(Unreadable, match="has no bias of T5: its scheme is RoPE"):
        t5_bias(tmp_path)
    with pytest.raises(Unreadable, match="layer must be less than the 4"):
        projections(tmp_path, 4)
    with pytest.raises(ValueError, match="layer must be at least 0"):
        projections(tmp_path, -1)
    with pytest.raises(TypeError, match="model must be a folder or a name, got int"):
        projections(3, 0)


@pytest.mark.parametrize("name", ["", "a/b/c", "../x", "a" * 5000 + "/b/c", "a\0b", "~nobody-here/x/y", "a b"])
def test_no_form_of_a_name(name):
    with pytest.raises(Unreadable, match="is neither a folder nor the form of a name"):
        learned_table(name)


def test_no_connection(monkeypatch):
    """One sentence, at once, from an address where nobody listens and from one that never answers."""
    import huggingface_hub

    monkeypatch.setattr(checkpoints, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}")
            start = time.monotonic()
            with pytest.raises(Unreadable, match=r"^no-one/nothing is no folder, and the hub does not answer, [^\n]*$"):
                learned_table("no-one/nothing")
            assert time.monotonic() - start < 3


def test_from_the_cache_of_the_hub_without_a_connection(monkeypatch, tmp_path):
    import huggingface_hub

    model, home = model_of("gpt2"), tmp_path / "models--some--one"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    saved(model, home / "snapshots" / ("0" * 40))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert torch.equal(learned_table("some/one").table, model.wpe.weight)


@pytest.mark.parametrize(
    "error, words",
    [
        ("RepositoryNotFoundError", "some/one is no folder, and no model that the hub shows without being asked for"),
        ("GatedRepoError", "some/one is no folder, and no model that the hub shows without being asked for"),
        ("RemoteEntryNotFoundError", "some/one has no config.json on the hub"),
        ("LocalEntryNotFoundError", "some/one is no folder, and the connection broke, .*"),
        ("HfHubHTTPError", "config.json of some/one cannot be fetched: said"),
    ],
)
def test_what_the_hub_says(monkeypatch, error, words):
    import httpx
    import huggingface_hub

    kind = getattr(huggingface_hub.errors, error)
    response = httpx.Response(404, request=httpx.Request("GET", "http://x"))
    others = {} if error.startswith("Local") else {"response": response}

    def refuse(*arguments, **settings):
        raise kind("said\nmuch", **others)

    monkeypatch.setattr(checkpoints, "_answers", lambda address: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(Unreadable, match=rf"^{words}$"):
        learned_table("some/one")


@pytest.mark.parametrize("package", ["safetensors", "huggingface_hub"])
def test_a_package_that_is_missing_is_named(package, monkeypatch, tmp_path):
    place = saved(model_of("gpt2"), tmp_path) if package == "safetensors" else "some/one"
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unreadable, match=re.escape(f"pip install {package}")):
        learned_table(place)


@pytest.fixture
def pictures(monkeypatch):
    """The figures that are shown."""
    shown = []
    monkeypatch.setattr(drawn, "show", lambda fig, caption, alt: shown.append(fig))
    yield shown
    plt.close("all")


def images(fig):
    return {ax.get_title(): ax.images[0].get_array() for ax in fig.axes if ax.get_title()}


def test_a_table_is_drawn(pictures, tmp_path):
    table = learned_table(saved(model_of("gpt2"), tmp_path)).table
    drawn.draw_table(table)
    left, right = pictures[0].axes
    P = table.double() - table.double().mean(0)
    S = torch.linalg.svdvals(P)
    path = np.stack(right.lines[0].get_data_3d())  # (3, max_length)
    assert np.allclose(left.lines[0].get_ydata(), S / S[0])
    assert np.allclose(np.linalg.norm(path @ P.numpy(), axis=1), S[:3])


def test_a_bias_is_drawn(pictures, tmp_path):
    others = {"num_layers": 2, "num_decoder_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 48}
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model("t5", vocab_size=200, **others))
    saved(model, tmp_path)
    drawn.draw_bias(t5_bias(tmp_path).weight, t5_bias(tmp_path, decoder=True).weight)
    for name, half in (("encoder", model.encoder), ("decoder", model.decoder)):
        theirs = half.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        assert np.array_equal(images(pictures[0])[name], theirs.detach().T)


def test_norms_of_pairs_are_drawn(pictures, tmp_path):
    of_queries, of_keys = projections(saved(model_of("llama"), tmp_path), 1).pair_norms()
    drawn.draw_pairs(of_queries, of_keys)
    found = images(pictures[0])
    assert np.array_equal(found["queries"], of_queries)
    assert np.array_equal(found["keys"], of_keys)
