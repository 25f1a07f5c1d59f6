#!/usr/bin/env python3
"""Trains the network of `pith demo`: handwritten digits, 8 x 8 pixels, three layers.

    python3 -m venv build/train
    build/train/bin/pip install numpy==2.4.6 scikit-learn==1.9.1 safetensors==0.8.0
    build/train/bin/python scripts/train_demo.py examples/demo

Writes model.safetensors (f32, 126,090 parameters) and test.safetensors (597 images that training never saw, and
their labels). The seed, one thread and one set of matrix kernels are fixed: with these versions the files come out
the same on every x86-64 processor that has AVX2.
"""

import os
import pathlib
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OPENBLAS_CORETYPE"] = "Haswell"

import numpy as np  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

SIZES = (64, 384, 256, 10)
TRAINING = 1200
EPOCHS = 150
BATCH = 50
RATE = 1e-3


def moved(images, rng):
    """Each image shifted by at most one pixel, with a little noise: makes 1,200 images go further."""
    pictures = images.reshape(-1, 8, 8)
    padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1)))
    out = np.empty_like(pictures)
    for i, (down, right) in enumerate(rng.integers(0, 3, size=(len(pictures), 2))):
        out[i] = padded[i, down : down + 8, right : right + 8]
    noise = rng.normal(0, 0.05, size=out.shape).astype(np.float32)
    return (out + noise).reshape(-1, 64)


def forward(layers, x):
    """The values that enter each layer, and the result."""
    values = [x]
    for number, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if number + 1 < len(layers):
            x = np.maximum(x, 0)
        values.append(x)
    return values


def gradients(layers, values, labels):
    scores = values[-1] - values[-1].max(axis=1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    error = shares / len(labels)
    found = []
    for number in reversed(range(len(layers))):
        found.insert(0, (error.T @ values[number], error.sum(axis=0)))
        error = (error @ layers[number][0]) * (values[number] > 0)
    return found


def accuracy(layers, images, labels):
    return float((forward(layers, images)[-1].argmax(axis=1) == labels).mean())


def train(images, labels, rng):
    layers = []
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        weight = rng.normal(0, np.sqrt(2 / inputs), size=(outputs, inputs)).astype(np.float32)
        layers.append([weight, np.zeros(outputs, np.float32)])
    mean = [[np.zeros_like(p) for p in layer] for layer in layers]
    square = [[np.zeros_like(p) for p in layer] for layer in layers]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(images))
        for begin in range(0, len(images), BATCH):
            chosen = order[begin : begin + BATCH]
            values = forward(layers, moved(images[chosen], rng))
            step += 1
            for i, pair in enumerate(gradients(layers, values, labels[chosen])):
                for j, gradient in enumerate(pair):  # Adam
                    mean[i][j] = 0.9 * mean[i][j] + 0.1 * gradient
                    square[i][j] = 0.999 * square[i][j] + 0.001 * gradient**2
                    change = (mean[i][j] / (1 - 0.9**step)) / (np.sqrt(square[i][j] / (1 - 0.999**step)) + 1e-8)
                    layers[i][j] = (layers[i][j] - rate * change).astype(np.float32)
    return layers


def main():
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(7)
    digits = load_digits()
    order = rng.permutation(len(digits.data))
    pixels = digits.data[order].astype(np.uint8)  # 0 to 16
    labels = digits.target[order]
    images = pixels.astype(np.float32) / 16
    layers = train(images[:TRAINING], labels[:TRAINING], rng)
    tensors = {}
    for number, (weight, bias) in enumerate(layers, start=1):
        tensors[f"fc{number}.weight"] = np.ascontiguousarray(weight)
        tensors[f"fc{number}.bias"] = bias
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    test = {"images": pixels[TRAINING:], "labels": labels[TRAINING:].astype(np.uint8)}
    save_file(test, folder / "test.safetensors")
    print(f"accuracy: {accuracy(layers, images[:TRAINING], labels[:TRAINING]):.4f} of {TRAINING} seen, "
          f"{accuracy(layers, images[TRAINING:], labels[TRAINING:]):.4f} of {len(images) - TRAINING} not seen")


main()
