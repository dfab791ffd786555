"""all-MiniLM-L6-v2 by ONNX Runtime on one thread: the peer of `cargo xtask bench memory --only embedding`.

The weights come without an ONNX graph, so one is written here: the usual export's operators (MatMul, Add, Softmax,
LayerNormalization, Gelu), which the runtime then fuses as it does for any BERT. Called with the model's folder, a
scratch folder and the texts (JSON); ends with one JSON line: milliseconds of each text alone and 32 times at once, and
the vectors.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

model, scratch, texts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
config = json.loads((model / "config.json").read_text())
weights = load_file(model / "model.safetensors")
H, HEADS = config["hidden_size"], config["num_attention_heads"]
nodes, constants = [], {}


def constant(name, value):
    constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
    return name


def whole(name, *values):
    return constant(name, np.array(values, np.int64))


def node(operator, *inputs, output=None, **attributes):
    output = output or f"node{len(nodes)}"
    nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
    return output


def linear(x, name):
    product = node("MatMul", x, constant(f"{name}.w", weights[f"{name}.weight"].T))
    return node("Add", product, constant(f"{name}.b", weights[f"{name}.bias"]))


def norm(x, name):
    scale, shift = constant(f"{name}.s", weights[f"{name}.weight"]), constant(f"{name}.o", weights[f"{name}.bias"])
    return node("LayerNormalization", x, scale, shift, axis=-1, epsilon=config["layer_norm_eps"])


def heads(x, split, order):
    return node("Transpose", node("Reshape", x, split), perm=order)


def graph():
    words = node("Gather", constant("words", weights["embeddings.word_embeddings.weight"]), "ids")
    length = node("Slice", node("Shape", "ids"), whole("one", 1), whole("two", 2))
    table = constant("positions", weights["embeddings.position_embeddings.weight"])
    positions = node("Slice", table, whole("zero", 0), length, whole("axis0", 0))
    kind = constant("kind", weights["embeddings.token_type_embeddings.weight"][0])
    x = norm(node("Add", node("Add", words, positions), kind), "embeddings.LayerNorm")
    mask = node("Cast", "mask", to=TensorProto.FLOAT)
    wide = node("Unsqueeze", mask, whole("axes12", 1, 2))
    hidden = node("Mul", node("Sub", wide, constant("unit", np.float32(1))), constant("far", np.float32(1e9)))
    split, joined = whole("split", 0, 0, HEADS, H // HEADS), whole("joined", 0, 0, H)
    scale = constant("scale", np.float32(1 / np.sqrt(H // HEADS)))
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        q = heads(linear(x, name + "attention.self.query"), split, [0, 2, 1, 3])
        k = heads(linear(x, name + "attention.self.key"), split, [0, 2, 3, 1])
        v = heads(linear(x, name + "attention.self.value"), split, [0, 2, 1, 3])
        shares = node("Softmax", node("Add", node("Mul", node("MatMul", q, k), scale), hidden), axis=-1)
        attended = node("Reshape", node("Transpose", node("MatMul", shares, v), perm=[0, 2, 1, 3]), joined)
        attended = linear(attended, name + "attention.output.dense")
        x = norm(node("Add", attended, x), name + "attention.output.LayerNorm")
        inner = node("Gelu", linear(x, name + "intermediate.dense"))
        x = norm(node("Add", linear(inner, name + "output.dense"), x), name + "output.LayerNorm")
    counted = node("ReduceSum", node("Mul", x, node("Unsqueeze", mask, whole("axes2", 2))), whole("axis1", 1), keepdims=0)
    mean = node("Div", counted, node("ReduceSum", mask, "axis1", keepdims=1))
    node("Div", mean, node("ReduceL2", mean, "axis1", keepdims=1), output="vectors")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", H])]
    return helper.make_graph(nodes, "bert", inputs, outputs, list(constants.values()))


path = scratch / "model.onnx"
if not path.exists():
    onnx.save(helper.make_model(graph(), opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
tokenizer.enable_truncation(256)
tokenizer.enable_padding(pad_id=0)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def embed(batch):
    encoded = tokenizer.encode_batch(batch)
    ids, mask = ([getattr(one, field) for one in encoded] for field in ("ids", "attention_mask"))
    return session.run(None, {"ids": np.array(ids, np.int64), "mask": np.array(mask, np.int64)})[0]


def median_ms(batch, rounds):
    embed(batch)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        embed(batch)
        times.append(time.perf_counter() - began)
    return float(np.median(times)) * 1e3


single = [median_ms([text], 30) for text in texts]
batch = [median_ms([text] * 32, 3) for text in texts]
tokens = [len(tokenizer.encode(text).ids) for text in texts]
vectors = [embed([text])[0].tolist() for text in texts]
print(json.dumps({"single_ms": single, "batch_ms": batch, "tokens": tokens, "vectors": vectors}))
