"""The examples that need transformers and a real model say what they did when they were written."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_a_sentence_through_minilm(tmp_path):
    printed = subprocess.run([sys.executable, ROOT / "examples/python/minilm_sentence.py"], stdout=subprocess.PIPE, text=True, check=True,
                             cwd=tmp_path).stdout
    kinds = {kind: int(count) for count, kind in re.findall(r"^ *(\d+) ([a-z].*)$", printed, re.MULTILINE)}
    assert sum(kinds.values()) == 72 and kinds["previous token"] == kinds["next token"] == 1
    sinks = [int(count) for count in re.findall(r"^layer \d: *(\d+) of 12 heads$", printed, re.MULTILINE)]
    assert sum(sinks) == kinds["first-key sink"] and 2 / 3 <= sum(sinks) / 72 <= 0.7 and sinks[0] == 0 < min(sinks[1:])
    assert "the token before, least of all rows: 1.0\n" in printed
    found = dict(re.findall(r"^(\w+ -> \S+): (\S+)$", printed, re.MULTILINE))
    assert float(found["are -> keys"]) > 0.7 and float(found["are -> cabinet"]) < 0.1
    assert float(found["is -> key"]) < 0.5 and float(found["writes -> [CLS]"]) > 0.8
    rows = {}
    for line in printed.splitlines():
        parts = line.split()
        if len(parts) == 14:
            rows.setdefault(parts[0], []).append([0 if part == "." else int(part) for part in parts[1:]])
    keys, cabinet, first = 2, 6, 0
    assert rows["the"][0].index(max(rows["the"][0])) == keys and all(row.index(max(row)) == cabinet for row in rows["the"][1:])
    assert all(row.index(max(row)) == first for noun in ("keys", "cabinet", "table") for row in rows[noun])
