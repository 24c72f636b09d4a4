#!/usr/bin/env python3
"""What others need for the end of a text that they know the beginning of, in bits per byte: gzip -9, xz -9, and counts of bytes
after the four before them. Beside a language model's held-out loss.

Usage: text_baselines.py TEXT [--held-out SHARE]      SHARE as in the configuration of `multihead train`
"""
import argparse
import collections
import math
import pathlib
import subprocess
import sys


def split(text, held_out):
    """The same as multihead::Trainer: the last floor(size * held_out) bytes are held out."""
    learned = len(text) - math.floor(len(text) * held_out)
    return text[:learned], text[learned:]


def compressor(command):
    """Bits per byte of `end` behind `beginning`: what it adds to the compressed size."""
    def bits(beginning, end):
        size = [len(subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout)
                for data in (beginning, beginning + end)]
        return 8 * (size[1] - size[0]) / len(end)
    return bits


def order_model(order):
    """Counts of the byte after the 0 … `order` before it, from the beginning alone, mixed from long to short as Witten and Bell
    (1991) do: p_n(c) = (count(c) + kinds * p_{n-1}(c)) / (total + kinds), with p_{-1} = 1 / 256."""
    def bits(beginning, end):
        counts = [collections.defaultdict(collections.Counter) for _ in range(order + 1)]
        for at, byte in enumerate(beginning):
            for n in range(min(order, at) + 1):
                counts[n][beginning[at - n:at]][byte] += 1
        totals = [{context: sum(after.values()) for context, after in level.items()} for level in counts]
        text, total = beginning + end, 0.0
        for at in range(len(beginning), len(text)):
            p = 1 / 256
            for n in range(min(order, at) + 1):
                context = text[at - n:at]
                after = counts[n].get(context)
                if after is None:
                    break
                p = (after[text[at]] + len(after) * p) / (totals[n][context] + len(after))
            total -= math.log2(p)
        return total / len(end)
    return bits


BASELINES = {"gzip -9": compressor(["gzip", "-9", "-n", "-c"]), "xz -9": compressor(["xz", "-9", "-c"]),
             "order-4 bytes": order_model(4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--held-out", type=float, default=0.05)
    options = parser.parse_args()
    beginning, end = split(options.text.read_bytes(), options.held_out)
    if not end:
        parser.error(f"expected a text of which {options.held_out} is at least a byte; got {len(beginning)} bytes")
    print(f"{len(end)} bytes held out of {len(beginning) + len(end)}")
    for name, bits in BASELINES.items():
        print(f"{name:14} {bits(beginning, end):.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
