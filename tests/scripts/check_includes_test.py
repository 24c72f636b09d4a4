"""scripts/check_includes.py accepts what is allowed and names what is not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_includes.py"

GOOD = {
    "include/multihead/tensor.h": '#include <vector>\n',
    "include/multihead/attention.h": '#include "multihead/tensor.h"\n',
    "src/base/views.h": '#include "multihead/tensor.h"\n',
    "src/kernels/score.cc": '#include "hwy/highway.h"\n#include "base/views.h"\n',
    "src/attention/plan.h": '#include "base/views.h"\n',
    "src/attention/plan.cc": '#include "attention/plan.h"\n#include "multihead/attention.h"\n',
    "src/layer/heads.h": '#include "attention/plan.h"\n',
    "cli/main.cc": '#include <CLI/CLI.hpp>\n#include "multihead/attention.h"\n#include "command.h"\n',
    "cli/command.h": "\n",
    "tests/attention/plan_test.cc": '#include "attention/plan.h"\n',
}

# What is added to the good tree, and the words that the complaint must have.
BAD = {
    "upwards": ({"src/base/bad.h": '#include "attention/plan.h"\n'}, "src/base/bad.h:1: src/base may include"),
    "sideways": ({"src/io/npy.h": "\n", "src/kernels/bad.cc": '\n#include "io/npy.h"\n'}, "src/kernels/bad.cc:2:"),
    "past the front": ({"cli/bad.cc": '#include "base/views.h"\n'}, "cli/bad.cc:1: cli may include"),
    "by path": ({"cli/bad.cc": '#include "../src/base/views.h"\n'}, "cli/bad.cc:1:"),
    "from the lab": ({"lab/server/bad.cc": '#include "layer/heads.h"\n'}, "lab/server/bad.cc:1:"),
    "from an example": ({"examples/bad.cc": '#include "src/layer/heads.h"\n'}, "examples/bad.cc:1:"),
    "Highway outside": ({"src/attention/bad.cc": "#include <hwy/highway.h>\n"}, "belongs to src/kernels alone"),
    "public and third party": ({"include/multihead/bad.h": "#include <nlohmann/json.hpp>\n"}, "standard library, not nlohmann"),
    "public and private": ({"include/multihead/bad.h": '#include "base/views.h"\n'}, "include/multihead/bad.h:1:"),
    "new folder": ({"src/stuff/new.cc": "\n"}, "src/stuff/new.cc: its folder is not in the table"),
    "cycle": ({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.h": '#  include "base/a.h"\n'},
              "include cycle: src/base/a.h -> src/base/b.h -> src/base/a.h"),
}


def run_on(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class CheckIncludes(unittest.TestCase):
    def test_accepts_the_allowed_edges(self):
        code, output = run_on(GOOD)
        self.assertEqual(code, 0, output)

    def test_names_each_broken_rule(self):
        for what, (files, words) in BAD.items():
            with self.subTest(what):
                code, output = run_on({**GOOD, **files})
                self.assertEqual(code, 1, output)
                self.assertIn(words, output)

    def test_an_empty_tree_is_not_a_success(self):
        self.assertEqual(run_on({})[0], 1)


if __name__ == "__main__":
    unittest.main()
