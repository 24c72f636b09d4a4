"""tests/docs/run_docs.py runs blocks, compares outputs, and can fail in each way that it promises."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "run_docs.py"


def run_on(page):
    """Exit status and output of the runner on a repository of one page, with a `multihead` that prints two lines."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "bin").mkdir()
        program = root / "bin" / "multihead"
        program.write_text("#!/bin/sh\necho target AVX2\necho 1.5 ms\nexit ${1:-0}\n", encoding="utf-8")
        program.chmod(0o755)
        (root / "repo").mkdir()
        (root / "repo" / "README.md").write_text(page, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, root / "repo", root, root / "work", "c++"], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr


def fenced(kind, body):
    return f"```{kind}\n{body}\n```\n"


class RunDocs(unittest.TestCase):
    def accepts(self, page, words="0 problems"):
        code, output = run_on(page)
        self.assertEqual(code, 0, output)
        self.assertIn(words, output)

    def refuses(self, page, words):
        code, output = run_on(page)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_output_is_compared(self):
        self.accepts(fenced("console", "$ multihead\ntarget AVX2\n1.5 ms"), "1 blocks run")
        self.refuses("x\n\n" + fenced("console", "$ multihead\ntarget AVX2\n1.6 ms"), "README.md:3: $ multihead")
        self.refuses(fenced("console", "$ multihead\ntarget AVX2"), "printed:")

    def test_wildcards(self):
        self.accepts(fenced("console", "$ multihead\ntarget …\n… ms"))
        self.accepts(fenced("console", "$ multihead\n…"))
        self.accepts(fenced("console", "$ multihead\ntarget AVX2\n…"))
        self.refuses(fenced("console", "$ multihead\ntarget …\n… s"), "printed:")
        self.refuses(fenced("console", "$ multihead\ntarget A.*"), "printed:")

    def test_exit_status(self):
        self.refuses(fenced("console", "$ multihead 3\n…"), "exit status 3")
        self.accepts(fenced("console", "$ multihead 3\n…\n$ echo $?\n3"))
        self.refuses(fenced("console", "$ multihead 4\n…\n$ echo $?\n3"), "$ echo $?")
        self.refuses(fenced("console", "$ exit 0\n$ multihead\n…"), "ended the shell")

    def test_commands_share_a_folder_that_is_not_the_repository(self):
        self.accepts(fenced("sh", "echo a > a.txt\ntest -e README.md") + fenced("console", "$ cat \\\n a.txt\na"), "2 blocks run")
        self.refuses(fenced("sh", "false\ntrue"), "exit status 1")

    def test_left_out_only_with_a_reason(self):
        self.accepts("<!-- not run: needs a network -->\n" + fenced("sh", "false"), "0 blocks run")
        self.refuses("<!-- not run: -->\n" + fenced("sh", "false"), "exit status 1")
        self.accepts(fenced("python", "1/0") + fenced("text", "$ false"), "0 blocks run")

    def test_links(self):
        self.accepts("[self](README.md#part) [web](https://example.org) [here](#part)\n")
        self.refuses("[gone](docs/gone.md)\n", "docs/gone.md, which is not there")

    def test_programs_must_compile(self):
        self.accepts(fenced("cpp", "int f();"), "0 blocks run")
        self.refuses(fenced("cpp", "int main() { return 0; }"), "does not compile")  # there is no package at this prefix


if __name__ == "__main__":
    unittest.main()
