"""The package as a whole: its stub, its names, its documentation's examples."""
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import multihead

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_stub_is_that_of_the_module(tmp_path):
    stub = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "multihead._core", "-o", stub, "-p",
                    ROOT / "python/stub_patterns.txt"], check=True, cwd=tmp_path)
    assert stub.read_text() == (ROOT / "python/multihead/_core.pyi").read_text(), "./dev python --stubs writes the new one"


def test_everything_is_exported_and_documented():
    core = multihead._core
    names = {name for name in vars(core) if not name.startswith("_")}
    assert names <= set(dir(multihead))
    assert not [name for name in names if not inspect.getdoc(getattr(multihead, name))]


def test_version_and_targets():
    assert multihead.__version__ == multihead.version()
    assert multihead.active_target() in multihead.targets()
    multihead.set_num_threads(1)
    assert multihead.num_threads() == 1
    multihead.set_num_threads(0)
    with pytest.raises(ValueError, match="force_target"):
        multihead.force_target("abacus")


def blocks(page):
    """(number, python code, expected output or None) of a page, found as tests/docs/run_docs.py finds its blocks."""
    spec = importlib.util.spec_from_file_location("run_docs", ROOT / "tests/docs/run_docs.py")
    run_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run_docs)
    found = [m for m in run_docs.FENCE.finditer((ROOT / page).read_text(encoding="utf-8"))
             if m["kind"] == "python" and not m["skip"]]
    return run_docs.matches, [(m["body"], m["text"]) for m in found]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/migrating_to_multihead.md"])
def test_documentation(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    matches, found = blocks(page)
    assert found
    names = {}
    for code, text in found:
        exec(compile(code, page, "exec"), names)
        printed = capsys.readouterr().out
        assert text is None or matches(text, printed), f"{code}\nprints\n{printed}\nnot\n{text}"


def example(name, folder):
    """What examples/python/NAME prints."""
    return subprocess.run([sys.executable, ROOT / "examples/python" / name], capture_output=True, text=True, check=True, cwd=folder).stdout


def test_the_layer_by_hand_agrees(tmp_path):
    printed = example("by_hand.py", tmp_path)
    checks = [line for line in printed.splitlines() if ": " in line]
    assert len(checks) == 4 and all(line.endswith(": True") for line in checks), printed


def test_a_long_map_down_to_one_coefficient(tmp_path):
    printed = example("long_context.py", tmp_path)
    assert printed.count(": True\n") == 3 and "False" not in printed
    kept, matrices = map(int, re.search(r"kept: (\d+) MB; the matrices would be ([\d,]+) MB", printed.replace(",", "")).groups())
    most = int(re.search(r"ever had: ([\d,]+) MB", printed.replace(",", "")).group(1))
    assert kept == 34 and matrices == 4295 and most < matrices / 8
    row, key = map(int, re.search(r"row (\d+) gives key (\d+) 0\.9", printed).groups())
    assert row - key == 8191  # what followed the word in the first reading
    picture = [line[2:] for line in printed.splitlines() if line.startswith("  ")][:16]
    assert all(line[2 * (i - 8)] in "*#%@" for i, line in enumerate(picture) if i >= 8)
