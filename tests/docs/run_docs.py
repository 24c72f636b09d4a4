"""Runs what the documentation shows, and compares what it prints with what the documentation says that it prints.

Usage: run_docs.py ROOT PREFIX WORK CXX
  ROOT    the repository: README.md, the other pages beside it, docs/**/*.md and examples/*.md are checked
  PREFIX  an installed multihead: its bin is on PATH, its package builds the C++ programs
  WORK    a folder for builds
  CXX     the compiler

Fenced blocks, in the order of a page, in one temporary folder a page that shows the repository's files:
  console  `$ command` lines (a final \\ continues) and, below each, its output, errors included. The command must succeed,
           unless the next one is `echo $?`.
  sh       commands that must succeed; their output is not compared.
  cpp      with a main: compiled and run; a `text` block right below it is its output.
In an output, … stands for any text within a line, and a line that is only … for any lines.
A block right below a comment <!-- not run: REASON --> is left out. Every link to a file must lead to one.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FENCE = re.compile(
    r"(?:<!-- not run: (?P<skip>[^\n]+?) -->\n)?^```(?P<kind>\w+)[^\n]*\n(?P<body>.*?)^```[ ]*$"
    r"(?:\n+```text\n(?P<text>.*?)^```[ ]*$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
MARK = "@@ status "

CMAKE = """cmake_minimum_required(VERSION 3.22)
project(snippets LANGUAGES CXX)
find_package(multihead REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS *.cc)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE multihead::multihead)
endforeach()
"""


def matches(expected, printed):
    """Whether printed text is the expected text with … as wildcards."""
    def tidy(text):
        return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
    lines = [r"(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
             for line in tidy(expected).split("\n")]
    return re.fullmatch("".join(lines), tidy(printed) + "\n") is not None


def commands_of(body):
    """(command, expected output) pairs of a console block."""
    pairs = []
    lines = iter(body.split("\n"))
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines, "")
            pairs.append((command, []))
        elif pairs:
            pairs[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"output before the first $ command: {line}")
    return [(command, "\n".join(output).strip("\n")) for command, output in pairs]


class Page:
    """One page: its problems, and how many blocks ran."""

    def __init__(self, path, root, binaries):
        self.path, self.root = path, root
        self.name = path.relative_to(root).as_posix()
        self.environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        self.problems, self.ran, self.programs = [], 0, []

    def complain(self, line, what):
        self.problems.append(f"{self.name}:{line}: {what}")

    def check(self):
        text = self.path.read_text(encoding="utf-8")
        for match in LINK.finditer(FENCE.sub("", text)):
            if not (self.path.parent / match.group(1)).exists():
                self.complain(1, f"link to {match.group(1)}, which is not there")
        with tempfile.TemporaryDirectory() as folder:
            for entry in self.root.iterdir():
                if entry.name not in ("build", ".git"):
                    (pathlib.Path(folder) / entry.name).symlink_to(entry)
            for match in FENCE.finditer(text):
                line = text.count("\n", 0, match.start("kind")) + 1
                runner = {"console": self.run_console, "sh": self.run_sh, "cpp": self.add_program}.get(match["kind"])
                if runner and not match["skip"]:
                    runner(line, match, folder)

    def bash(self, script, folder):
        return subprocess.run(["bash", "-c", script], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)

    def run_sh(self, line, match, folder):
        self.ran += 1
        done = self.bash("set -e\n" + match["body"], folder)
        if done.returncode != 0:
            self.complain(line, f"exit status {done.returncode}\n{done.stdout}")

    def run_console(self, line, match, folder):
        self.ran += 1
        pairs = commands_of(match["body"])
        # The mark keeps $? for the next command, as a terminal would.
        script = f'mark() {{ local status=$?; printf "\\n{MARK}%d\\n" $status; return $status; }}\n'
        script += "".join(f"{command}\nmark\n" for command, _ in pairs)
        parts = re.split(rf"\n{MARK}(\d+)\n", self.bash(script, folder).stdout)
        for index, (command, expected) in enumerate(pairs):
            if 2 * index + 1 >= len(parts):
                self.complain(line, f"$ {command}\nended the shell")
                return
            printed, status = parts[2 * index], int(parts[2 * index + 1])
            asked = index + 1 < len(pairs) and pairs[index + 1][0] == "echo $?"
            if status != 0 and not asked:
                self.complain(line, f"$ {command}\nexit status {status}\n{printed}")
            elif not matches(expected, printed):
                self.complain(line, f"$ {command}\nexpected:\n{expected}\nprinted:\n{printed.strip()}")

    def add_program(self, line, match, _folder):
        if re.search(r"\bint main\(", match["body"]):
            self.programs.append((line, match["body"], match["text"]))


def run_programs(pages, prefix, work, compiler):
    """Builds the C++ programs of all pages as one project, runs each and compares."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    named = [(page, f"{page.path.stem}_{line}", line, body, text) for page in pages for line, body, text in page.programs]
    if not named:
        return
    (work / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    for _, name, _, body, _ in named:
        (work / f"{name}.cc").write_text(body, encoding="utf-8")
    built = subprocess.run(
        f"cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH='{prefix}' -DCMAKE_CXX_COMPILER='{compiler}'"
        " && cmake --build build -- -k 0", cwd=work, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    for page, name, line, _, expected in named:
        page.ran += 1
        if not (work / "build" / name).exists():
            page.complain(line, f"does not compile\n{built.stdout}")
            continue
        done = page.bash(f"./build/{name}", work)
        if done.returncode != 0:
            page.complain(line, f"exit status {done.returncode}\n{done.stdout}")
        elif expected is not None and not matches(expected, done.stdout):
            page.complain(line, f"expected:\n{expected}\nprinted:\n{done.stdout}")


def main():
    root, prefix, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    paths = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md")) + sorted((root / "examples").glob("*.md"))
    pages = [Page(path, root, prefix / "bin") for path in paths]
    for page in pages:
        page.check()
    run_programs(pages, prefix, work, sys.argv[4])
    problems = [problem for page in pages for problem in page.problems]
    for problem in problems:
        print(problem + "\n")
    print(f"run_docs: {len(pages)} pages, {sum(page.ran for page in pages)} blocks run, {len(problems)} problems")
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
