#!/usr/bin/env python3
"""What the heads of a model look like on many passages of a text, as a Markdown table for its card.

Usage: name_heads.py PROGRAM MODEL TEXT [--held-out SHARE] [--passages N] [--bytes N]

The passages begin with lines of the held-out end, evenly spread. Each head's line has the words that `multihead look` gives it,
with the number of passages for each, and medians of its numbers.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from text_baselines import split


def passages(text, count, size):
    """`count` passages of at most `size` bytes of whole characters, each from the beginning of a line."""
    starts = [text.index(b"\n", len(text) * n // count) + 1 for n in range(count)]
    return [text[start:start + size].decode("utf-8", "ignore") for start in starts]


def heads_of(program, model, text):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "look", text, "--checkpoint", model, "--output", folder, "--json"], stdout=subprocess.PIPE,
                              check=True)
        return json.loads(done.stdout)["heads"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="the multihead command")
    parser.add_argument("model", help="a folder that it reads")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--held-out", type=float, default=0.05)
    parser.add_argument("--passages", type=int, default=16)
    parser.add_argument("--bytes", type=int, default=240)
    options = parser.parse_args()
    _, end = split(options.text.read_bytes(), options.held_out)
    seen = [heads_of(options.program, options.model, text) for text in passages(end, options.passages, options.bytes)]
    print("| layer | head | looks like | entropy | distance | prev. | first | induction |")
    print("|--:|--:|---|--:|--:|--:|--:|--:|")
    for same in zip(*seen):
        words = collections.Counter(head["looks_like"] for head in same).most_common()
        median = lambda number: statistics.median(number(head) for head in same)
        print(f"| {same[0]['layer']} | {same[0]['head']} | {', '.join(f'{word} ({count})' for word, count in words)} "
              f"| {median(lambda head: head['normalized_entropy']['value']):.2f} "
              f"| {median(lambda head: head['mean_distance']['value']):.1f} "
              f"| {median(lambda head: head['previous_mass']['value']):.2f} "
              f"| {median(lambda head: head['sink_mass'][0]['value']):.2f} "
              f"| {median(lambda head: head['induction_mass']['value']):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
