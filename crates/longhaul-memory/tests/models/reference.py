"""Makes the small models beside this file and the vectors that the tests expect of them and of all-MiniLM-L6-v2.

Everything is computed here in numpy with double precision, from the papers' definitions and not from our code. Weights
are random with a fixed seed. Run it with numpy, safetensors and tokenizers installed, and for the default model's
vectors the folder of all-MiniLM-L6-v2:

    python reference.py [FOLDER OF all-MiniLM-L6-v2]

Outputs: one folder for each small model with `expected.f32`, and `minilm.f32`; each is one vector of length one after
the other, of 4-byte little-endian values, for the lines of `texts.txt` (documents), then for the same lines as queries
where the model has prompts.
"""

import json
import math
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).parent
TEXTS = (HERE / "texts.txt").read_text().split("\n")[:-1]
ERF = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


def gelu_new(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_new}


def norm(x, weight, bias, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weight + bias


def encode(config, weights, prefix, ids):
    """The rows of one text after the last layer."""
    get = lambda name: weights[prefix + name].astype(np.float64)
    old = prefix + "embeddings.LayerNorm.gamma" in weights
    scale, shift = ("gamma", "beta") if old else ("weight", "bias")
    linear = lambda x, name: x @ get(name + ".weight").T + get(name + ".bias")
    layer_norm = lambda x, name: norm(x, get(f"{name}.{scale}"), get(f"{name}.{shift}"), config["layer_norm_eps"])
    if "roberta" in config["model_type"]:
        pad, positions, count = config["pad_token_id"], [], 0
        for token in ids:
            count += token != pad
            positions.append(pad + count if token != pad else pad)
    else:
        positions = list(range(len(ids)))
    x = get("embeddings.word_embeddings.weight")[ids] + get("embeddings.position_embeddings.weight")[positions]
    x = layer_norm(x + get("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
    heads = config["num_attention_heads"]
    size = config["hidden_size"] // heads
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        split = lambda part: linear(x, f"{name}.attention.self.{part}").reshape(len(ids), heads, size).transpose(1, 0, 2)
        q, k, v = split("query"), split("key"), split("value")
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(size)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        attended = (shares @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        x = layer_norm(x + linear(attended, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        inner = ACTIVATIONS[config["hidden_act"]](linear(x, f"{name}.intermediate.dense"))
        x = layer_norm(x + linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


POOLINGS = {
    "cls_token": lambda rows: rows[0],
    "max_tokens": lambda rows: rows.max(0),
    "mean_tokens": lambda rows: rows.mean(0),
    "mean_sqrt_len_tokens": lambda rows: rows.sum(0) / math.sqrt(len(rows)),
    "weightedmean_tokens": lambda rows: (rows * np.arange(1, len(rows) + 1)[:, None]).sum(0)
    / np.arange(1, len(rows) + 1).sum(),
    "lasttoken": lambda rows: rows[-1],
}


def unit(vector):
    return vector / np.sqrt((vector**2).sum())


def words():
    """A vocabulary of the texts' own words and characters."""
    seen = {}
    for text in TEXTS:
        for word in text.lower().split()[:12]:
            seen.setdefault(word[:6], None)
    characters = {c: None for text in TEXTS for c in text.lower() if not c.isspace()}
    return list(seen)[:60], list(characters)


def random_weights(random, config, prefix, old_names, dtype):
    h, inner = config["hidden_size"], config["intermediate_size"]
    weights = {}

    def put(name, *shape, around=0.0, spread=0.4):
        weights[prefix + name] = (random.standard_normal(shape) * spread + around).astype(dtype)

    def put_norm(name):
        put(f"{name}.{'gamma' if old_names else 'weight'}", h, around=1.0, spread=0.2)
        put(f"{name}.{'beta' if old_names else 'bias'}", h, spread=0.2)

    put("embeddings.word_embeddings.weight", config["vocab_size"], h, spread=1.0)
    put("embeddings.position_embeddings.weight", config["max_position_embeddings"], h)
    put("embeddings.token_type_embeddings.weight", config["type_vocab_size"], h)
    put_norm("embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            put(f"{name}.{part}.weight", h, h)
            put(f"{name}.{part}.bias", h)
        put_norm(f"{name}.attention.output.LayerNorm")
        put(f"{name}.intermediate.dense.weight", inner, h)
        put(f"{name}.intermediate.dense.bias", inner)
        put(f"{name}.output.dense.weight", h, inner)
        put(f"{name}.output.dense.bias", h)
        put_norm(f"{name}.output.LayerNorm")
    if not old_names:
        weights[prefix + "embeddings.position_ids"] = np.arange(config["max_position_embeddings"], dtype=np.int64)[None]
    return weights


def bert_tokenizer():
    whole, characters = words()
    vocabulary = {}
    for piece in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters, *("##" + c for c in characters), *whole]:
        vocabulary.setdefault(piece, len(vocabulary))
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def xlmr_tokenizer():
    whole, characters = words()
    pieces = {"<s>": 0.0, "<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -2.0}
    for word in whole:
        pieces.setdefault("▁" + word, -5.0)
    for character in characters:
        pieces.setdefault(character, -8.0)
    tokenizer = Tokenizer(models.Unigram(list(pieces.items()), unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return tokenizer


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n")


def make(name, tokenizer, config, poolings, prefix="", old_names=False, dtype=np.float32, window=None, dense=None, prompts=None):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(sum(name.encode()))
    config = {**config, "vocab_size": tokenizer.get_vocab_size(), "position_embedding_type": "absolute"}
    weights = random_weights(random, config, prefix, old_names, dtype)
    write(folder / "config.json", config)
    (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n")
    save_file(weights, folder / "model.safetensors")
    modules = ["Transformer", "Pooling"]
    switches = {f"pooling_mode_{kind}": kind in poolings for kind in POOLINGS}
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension": config["hidden_size"], **switches})
    if dense:
        modules.append("Dense")
        inputs = config["hidden_size"] * len(poolings)
        activation = "torch.nn.modules.activation.Tanh"
        shape = {"in_features": inputs, "out_features": dense, "bias": True, "activation_function": activation}
        write(folder / "2_Dense/config.json", shape)
        layer = {
            "linear.weight": random.standard_normal((dense, inputs)).astype(np.float32) * 0.3,
            "linear.bias": random.standard_normal(dense).astype(np.float32) * 0.3,
        }
        save_file(layer, folder / "2_Dense/model.safetensors")
    modules.append("Normalize")
    kinds = "sentence_transformers.models."
    paths = ["" if kind == "Transformer" else f"{at}_{kind}" for at, kind in enumerate(modules)]
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": p, "type": kinds + k} for i, (p, k) in enumerate(zip(paths, modules))])
    if window:
        write(folder / "sentence_bert_config.json", {"max_seq_length": window, "do_lower_case": False})
    if prompts:
        write(folder / "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": None})
    first = config["pad_token_id"] + 1 if "roberta" in config["model_type"] else 0
    tokenizer.enable_truncation(min(window or 512, config["max_position_embeddings"] - first))

    def embed(text):
        rows = encode(config, weights, prefix, tokenizer.encode(text).ids)
        vector = np.concatenate([POOLINGS[kind](rows) for kind in POOLINGS if kind in poolings])
        if dense:
            vector = np.tanh(layer["linear.weight"].astype(np.float64) @ vector + layer["linear.bias"])
        return unit(vector)

    roles = [prompts["passage"], prompts["query"]] if prompts else [""]
    vectors = np.array([embed(prompt + text) for prompt in roles for text in TEXTS])
    vectors.astype("<f4").tofile(folder / "expected.f32")
    print(name, vectors.shape, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()), "bytes")


def minilm(folder):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    vectors = [unit(encode(config, weights, "", tokenizer.encode(text).ids).mean(0)) for text in TEXTS]
    np.array(vectors).astype("<f4").tofile(HERE / "minilm.f32")
    print("minilm", len(vectors))


SIZES = {"num_hidden_layers": 2, "is_decoder": False}
BERT = {**SIZES, "model_type": "bert", "hidden_act": "gelu", "pad_token_id": 0, "layer_norm_eps": 1e-12, "type_vocab_size": 2}
ROBERTA = {**SIZES, "model_type": "xlm-roberta", "hidden_act": "gelu", "pad_token_id": 1, "layer_norm_eps": 1e-5, "type_vocab_size": 1}
make(
    "bert",
    bert_tokenizer(),
    {**BERT, "hidden_size": 20, "num_attention_heads": 2, "intermediate_size": 36, "max_position_embeddings": 48},
    {"cls_token"},
    prefix="bert.",
    old_names=True,
    dense=9,
)
make(
    "xlm-roberta",
    xlmr_tokenizer(),
    {**ROBERTA, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 40},
    {"mean_tokens"},
    prefix="roberta.",
    dtype=np.float16,
    window=30,
    prompts={"query": "query: ", "passage": "passage: "},
)
make(
    "roberta",
    xlmr_tokenizer(),
    {**ROBERTA, "model_type": "roberta", "hidden_act": "gelu_new", "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 18, "max_position_embeddings": 64},
    {"max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"},
    window=500,
)
if len(sys.argv) > 1:
    minilm(sys.argv[1])
