"""torch.nn.functional.scaled_dot_product_attention replaced by multihead.torch's, row by row of `multihead bench`, calls included.

Usage: sdpa.py MULTIHEAD [--filter REGEX] [--threads N] [--rounds N] [--output PATH]    (MULTIHEAD: the program, for the names)
./dev bench sdpa makes the environment that it needs and calls it.
"""
import argparse
import collections
import datetime
import json
import shlex
import statistics
import subprocess
import sys

import torch
from torch.nn import functional

import multihead
import multihead.torch
import peers_pytorch
import peers_shape
from common import before_call, number, seconds_of, table, write_page

FUNCTIONS = {"PyTorch": functional.scaled_dot_product_attention, "multihead": multihead.torch.scaled_dot_product_attention}

Row = collections.namedtuple("Row", "name way theirs ours")  # milliseconds


def compare(name, threads, rounds):
    """One row for each way to write the call down: the same tensors and options for both."""
    inputs = peers_shape.Inputs(peers_shape.parse(name))
    before, times = before_call(inputs.shape), collections.defaultdict(list)
    ways = {who: peers_pytorch.contestants(inputs, threads, function) for who, function in FUNCTIONS.items()}
    rows = []
    for way in ways["PyTorch"]:
        pair = {who: ways[who][way]() for who in FUNCTIONS}
        for who, contestant in pair.items():
            contestant.run()
            if not inputs.is_right(contestant.output()):
                sys.exit(f"sdpa.py: {name}, {way}: {who}'s answer is not the definition's")
        for _ in range(rounds):
            for who, contestant in pair.items():
                times[who, way].append(seconds_of(contestant, before))
        rows.append(Row(name, way, *(1000 * statistics.median(times[who, way]) for who in FUNCTIONS)))
    return rows


def page(rows, machine, command):
    slower = [row for row in rows if row.theirs < row.ours]
    text = "# PyTorch's function, replaced\n\nWritten by `./dev bench sdpa`: `torch.nn.functional.scaled_dot_product_attention` and\n"
    text += "`multihead.torch.scaled_dot_product_attention` in one process, the same tensors, taking turns; everything between the call and\n"
    text += "its return counts. Shapes are named as in [benchmarking.md](benchmarking.md).\n\n"
    text += "".join(f"* {name}: {value}\n" for name, value in machine.items()) + f"* command: `{command}`\n\n"
    text += f"*Ratio*: how many times as long as multihead PyTorch takes; **below 1** in {len(slower)} of {len(rows)} rows.\n\n"
    body = []
    for row in rows:
        ratio = number(row.theirs / row.ours)
        body.append([f"`{row.name}`, {row.way}", number(row.ours), number(row.theirs), f"**{ratio}**" if row in slower else ratio])
    return text + table(["shape", "multihead ms", "PyTorch ms", "ratio"], body, "--:")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="the multihead program, which knows the rows")
    parser.add_argument("--filter", default="", help="only rows in whose name this regular expression is found")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for both; default: PyTorch's own")
    parser.add_argument("--rounds", type=int, default=5, help="how often both take a turn (5)")
    parser.add_argument("--output", default="docs/benchmarks_sdpa.md", help="the page (docs/benchmarks_sdpa.md)")
    options = parser.parse_args()
    multihead.set_num_threads(options.threads)
    listed = subprocess.run([options.program, "bench", "--list", "--json", "--filter", options.filter], stdout=subprocess.PIPE, check=True)
    names = [name for name in json.loads(listed.stdout)["names"] if name.startswith(("prefill/", "decode/"))]
    names = [name for name in names if not peers_shape.parse(name).strided]  # each row is written in every layout anyway
    if not names:
        sys.exit("sdpa.py: expected rows of prefill or decode; the filter leaves none")
    machine = {"threads": options.threads, "target": multihead.active_target(), "date": datetime.date.today().isoformat(),
               "versions": f"multihead {multihead.version()}, PyTorch {torch.__version__}"}
    command, rows = shlex.join(["./dev", "bench", "sdpa", *sys.argv[2:]]), []
    for done, name in enumerate(names, 1):
        for row in compare(name, options.threads, options.rounds):
            print(f"{done} of {len(names)}  {name} ({row.way}): {number(row.ours)} ms, PyTorch {number(row.theirs)} ms, "
                  f"ratio {number(row.theirs / row.ours)}", flush=True)
            rows.append(row)
        write_page(options.output, page(rows, machine, command))  # after every row: what was measured is kept
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
