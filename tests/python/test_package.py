"""The package as a whole: its stub, its names, its documentation's examples."""
import importlib.util
import inspect
import pathlib
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


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_documentation(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    matches, found = blocks(page)
    assert found
    names = {}
    for code, text in found:
        exec(compile(code, page, "exec"), names)
        printed = capsys.readouterr().out
        assert text is None or matches(text, printed), f"{code}\nprints\n{printed}\nnot\n{text}"


def test_the_layer_by_hand_agrees(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "examples/python/by_hand.py"], capture_output=True, text=True, check=True, cwd=tmp_path)
    checks = [line for line in done.stdout.splitlines() if ": " in line]
    assert len(checks) == 4 and all(line.endswith(": True") for line in checks), done.stdout
