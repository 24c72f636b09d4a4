"""Measures multihead and other libraries on the same shapes, alternating, and writes a page with every row, lost ones included.

Usage: peers.py MULTIHEAD [--filter REGEX] [--threads N] [--rounds N] [--output PATH]    (MULTIHEAD: the program)
./dev bench peers makes the environment that it needs (peers_requirements.txt) and calls it.
"""
import argparse
import collections
import datetime
import json
import pathlib
import re
import resource
import shlex
import statistics
import subprocess
import sys

import peers_onnxruntime
import peers_openvino
import peers_pytorch
import peers_shape
from common import before_call, number, seconds_of, table, write_page

PEERS = [peers_pytorch, peers_onnxruntime, peers_openvino]

Row = collections.namedtuple("Row", "name milliseconds fraction peers")  # peers: {peer's name: (milliseconds, way)}


class Ours:
    """multihead bench, one process a measurement."""

    def __init__(self, program, threads):
        self.program, self.more = program, ["--threads", str(threads)] if threads else []

    def call(self, *arguments):
        done = subprocess.run([self.program, "bench", "--json", *self.more, *arguments], stdout=subprocess.PIPE, text=True,
                              check=True)
        return json.loads(done.stdout)

    def names(self, pattern):
        return self.call("--list", "--filter", pattern)["names"]

    def measure(self, name):
        return self.call("--filter", f"^{name}$")["rows"][0]


def available_bytes():
    return int(re.search(r"MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(encoding="ascii"))[1]) * 1024


def prepare(inputs, threads, problems, name):
    """{(peer's name, way): contestant} of all that run and give the right answer; the others go to problems."""
    ready = {}
    for peer in PEERS:
        ways = peer.contestants(inputs, threads)
        if not ways:
            problems.append(f"{name}: {peer.NAME} has no operator for it")
        for way, make in ways.items():
            try:
                contestant = make()
                contestant.run()
                right = inputs.is_right(contestant.output())
            except Exception as error:  # whatever a peer throws, the other rows go on
                problems.append(f"{name}: {peer.NAME}, {way}: {' '.join(str(error).split())[:160]}")
                continue
            if right:
                ready[peer.NAME, way] = contestant
            else:
                problems.append(f"{name}: {peer.NAME}, {way}: its answer is another one, or beyond {inputs.shape.dtype}")
    return ready


def compare(name, ours, threads, rounds, problems):
    shape = peers_shape.parse(name)
    contestants = prepare(peers_shape.Inputs(shape), threads, problems, name)
    before = before_call(shape)
    mine, times = [], collections.defaultdict(list)
    for _ in range(rounds):
        mine.append(ours.measure(name))
        for key, contestant in contestants.items():
            times[key].append(seconds_of(contestant, before))
    peers = {}
    for (peer, way), seconds in times.items():
        best = (1000 * statistics.median(seconds), way)
        peers[peer] = min(peers.get(peer, best), best)
    return Row(name, *(statistics.median(row[field] for row in mine) for field in ("milliseconds", "fraction")), peers)


def ratio_of(row, peer):
    return row.peers[peer][0] / row.milliseconds


def page(rows, problems, machine, command):
    names = [peer.NAME for peer in PEERS]
    body, ways = [], []
    for row in rows:
        cells = [f"`{row.name}`", number(row.milliseconds), number(row.fraction)]
        for peer in names:
            if peer not in row.peers:
                cells += ["–", "–"]
                continue
            ratio = number(ratio_of(row, peer))
            cells += [number(row.peers[peer][0]), f"**{ratio}**" if ratio_of(row, peer) < 1 else ratio]
        body.append(cells)
        ways.append([f"`{row.name}`", *(row.peers[peer][1] if peer in row.peers else "–" for peer in names)])
    lost = [row for row in rows if any(ratio_of(row, peer) < 1 for peer in row.peers)]
    text = "# Benchmarks\n\nWritten by `./dev bench peers`; what is measured, and how, is in [benchmarking.md](benchmarking.md).\n\n"
    text += f"* machine: {machine['processor']}, {machine['processors']} processors, {machine['target']},"
    text += f" {machine['threads']} threads\n"
    text += f"* date: {datetime.date.today().isoformat()}\n"
    text += f"* versions: multihead {machine['version']}, " + ", ".join(f"{peer.NAME} {peer.VERSION}" for peer in PEERS) + "\n"
    text += f"* command: `{command}`\n\n"
    text += "Milliseconds, and how many times as long as multihead a peer takes: **below 1** (bold) the peer is faster, which it\n"
    text += f"is in {len(lost)} of {len(rows)} rows. *Of limit*: multihead's part of the measured peak, or of the measured read\n"
    text += "bandwidth where a row is bound by that.\n\n"
    head = ["shape", "multihead ms", "of limit", *(cell for peer in names for cell in (f"{peer} ms", "ratio"))]
    text += table(head, body, "--:")
    text += "\n## Each peer's fastest way\n\n" + table(["shape", *names], ways, "---")
    if problems:
        text += "\n## Not measured\n\n" + "".join(f"* {problem}\n" for problem in problems)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="the multihead program")
    parser.add_argument("--filter", default="", help="only rows in whose name this regular expression is found")
    parser.add_argument("--threads", type=int, help="for everybody; default: multihead's own")
    parser.add_argument("--rounds", type=int, default=3, help="how often everybody takes a turn (3)")
    parser.add_argument("--output", default="docs/benchmarks.md", help="the page (docs/benchmarks.md)")
    options = parser.parse_args()
    # An operator that stores every score may want more memory than there is: it gets an exception, not the machine's last byte.
    resource.setrlimit(resource.RLIMIT_DATA, (available_bytes(),) * 2)

    ours = Ours(options.program, options.threads)
    forward = [name for name in ours.names(options.filter) if not name.startswith("backward/")]
    names = [name for name in forward if not peers_shape.parse(name).strided]  # peers choose their own layout
    if not names:
        sys.exit("peers.py: only strided rows, which are no peer's affair")
    first = ours.call("--filter", f"^{names[0]}$")
    machine = first["machine"] | {key: first["rows"][0][key] for key in ("target", "threads")}
    rows, problems = [], []
    command = shlex.join(["./dev", "bench", "peers", *sys.argv[2:]])
    for name in names:
        row = compare(name, ours, machine["threads"], options.rounds, problems)
        print(f"{name}: {number(row.milliseconds)} ms; " + ", ".join(
            f"{peer} {number(milliseconds)} ({way})" for peer, (milliseconds, way) in row.peers.items()), flush=True)
        rows.append(row)
        # After every row: the whole table takes half an hour, and what was measured is kept when somebody has to stop.
        write_page(options.output, page(rows, problems, machine, command))
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
