#!/usr/bin/env python3
"""The text of Jane Austen's six novels, and the training of the bundled model on it.

Usage: austen.py text OUTPUT [--package DEB]        writes the text, UTF-8, one paragraph a line
       austen.py train PROGRAM OUTPUT [--package DEB] [ARGUMENTS...]
                                                     learns it with `PROGRAM train`; more arguments go to that command

The novels (public domain) come from Debian's package r-cran-janeaustenr, which is downloaded with apt-get unless --package names
it; neither R nor the package is installed. The text itself is not part of this repository: this script is.
"""
import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

PACKAGE = "r-cran-janeaustenr"
DATA = "usr/lib/R/site-library/janeaustenr/data"
# In the order in which they appeared.
NOVELS = ["sensesensibility", "prideprejudice", "mansfieldpark", "emma", "northangerabbey", "persuasion"]

# 8 heads a layer, 1.02 million parameters, 2.0 MB as f16; about an hour on two cores.
CONFIG = {"num_layers": 5, "num_heads": 8, "model_dim": 128, "hidden_dim": 344, "context": 256, "batch": 16, "steps": 8000,
          "warmup": 200, "learning_rate": 3e-3, "final_rate": 0.05, "weight_decay": 0.1, "held_out": 0.05, "seed": 1}


class RObjects:
    """Reads R's serialization format, XDR, as far as data of this package goes: lists, names, strings and numbers."""

    NIL, SYMBOL, PAIRS, CHARACTER, LOGICAL, INTEGER, REAL, STRINGS, LIST, REFERENCE, END = (
        0, 1, 2, 9, 10, 13, 14, 16, 19, 255, 254)

    def __init__(self, data):
        self.data, self.at, self.references = data, 0, []
        if self.take(2) != b"X\n":
            raise ValueError("expected R's binary serialization")
        version = self.integer()
        self.take(8)
        if version == 3:
            self.take(self.integer())  # the native encoding's name

    def take(self, count):
        piece = self.data[self.at:self.at + count]
        if count < 0 or len(piece) != count:
            raise ValueError("the object ends early")
        self.at += count
        return piece

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def item(self):
        flags = self.integer()
        kind, has_attributes, has_tag = flags & 255, flags & 512, flags & 1024
        if kind == self.END or kind == self.NIL:
            return None
        if kind == self.REFERENCE:
            return self.references[(flags >> 8 or self.integer()) - 1]
        if kind == self.SYMBOL:
            self.references.append(self.item())
            return self.references[-1]
        if kind == self.PAIRS:
            return self.pairs(has_attributes, has_tag)
        if kind == self.CHARACTER:
            length = self.integer()
            return None if length < 0 else self.take(length).decode("latin-1" if flags >> 12 & 4 else "utf-8")
        readers = {self.LOGICAL: self.integer, self.INTEGER: self.integer, self.STRINGS: self.item, self.LIST: self.item,
                   self.REAL: lambda: struct.unpack(">d", self.take(8))[0]}
        if kind not in readers:
            raise ValueError(f"an R object of kind {kind}, which the novels should not have")
        values = [readers[kind]() for _ in range(self.integer())]
        names = (self.item() or {}).get("names") if has_attributes else None
        return dict(zip(names, values)) if names else values

    def pairs(self, has_attributes, has_tag):
        if has_attributes:
            self.item()
        tag = self.item() if has_tag else None
        result = {tag: self.item()}
        result.update(self.item() or {})
        return result


def novels(folder):
    """{name: lines} from the folder `data` of the unpacked package."""
    index = zlib.decompress((folder / "Rdata.rdx").read_bytes(), wbits=47)
    database = (folder / "Rdata.rdb").read_bytes()
    contents = RObjects(index).item()
    if contents["compressed"] != [1]:
        raise ValueError("expected data compressed with zlib")
    places = contents["variables"]
    missing = [name for name in NOVELS if name not in places]
    if missing:
        raise ValueError(f"expected the novels {', '.join(NOVELS)}; not there: {', '.join(missing)}")
    result = {}
    for name in NOVELS:
        first, length = places[name]
        result[name] = RObjects(zlib.decompress(database[first + 4:first + length])).item()  # behind its length
    return result


def as_text(lines):
    """Paragraphs, which are set in short lines with empty ones between, one a line; runs of blanks become one."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(line.strip() for line in lines))
    joined = (re.sub(r"\s+", " ", paragraph).strip() for paragraph in paragraphs)
    return "".join(paragraph + "\n" for paragraph in joined if paragraph)


def split(texts):
    """All novels' beginnings, then all their ends: what is held out, the last 5 %, is of every novel."""
    cuts = {name: text.rindex("\n", 0, int(len(text) * (1 - CONFIG["held_out"]))) + 1 for name, text in texts.items()}
    return "".join(text[:cuts[name]] for name, text in texts.items()) + "".join(text[cuts[name]:] for name, text in texts.items())


def austen_text(package):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if package is None:
            work.chmod(0o755)
            subprocess.run(["apt-get", "download", "--quiet", PACKAGE], cwd=work, check=True, stdout=sys.stderr)
            package = next(work.glob("*.deb"))
        subprocess.run(["dpkg-deb", "--extract", package, work / "package"], check=True)
        return split({name: as_text(lines) for name, lines in novels(work / "package" / DATA).items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    text = commands.add_parser("text", help="write the text")
    train = commands.add_parser("train", help="learn it")
    train.add_argument("program", type=pathlib.Path, help="the multihead command")
    for command in (text, train):
        command.add_argument("output", type=pathlib.Path)
        command.add_argument("--package", type=pathlib.Path, help="the .deb file, instead of a download")
    options, more = parser.parse_known_args()
    if options.command == "text":
        if more:
            parser.error(f"unrecognized arguments: {' '.join(more)}")
        options.output.write_text(austen_text(options.package), encoding="utf-8", newline="\n")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "text.txt").write_text(austen_text(options.package), encoding="utf-8", newline="\n")
    (options.output / "training.json").write_text(json.dumps(CONFIG, indent=1) + "\n", encoding="utf-8")
    return subprocess.run([options.program, "train", "--text", options.output / "text.txt", "--config",
                           options.output / "training.json", "--output", options.output / "model", "--dtype", "f16", "--resume", *more]).returncode


if __name__ == "__main__":
    sys.exit(main())
