#!/usr/bin/env python3
"""Checks which folder includes which: the arrows of ARCHITECTURE.md as a table. Usage: check_includes.py [ROOT]"""
import pathlib
import re
import sys

# Folder: the folders whose files it may include besides its own. Every folder may include include/multihead.
ALLOWED = {
    "include/multihead": [],
    "src/base": [],
    "src/io": ["src/base"],
    "src/kernels": ["src/base"],
    "src/attention": ["src/base", "src/kernels"],
    "src/layer": ["src/base", "src/kernels", "src/attention"],
    "src/observe": ["src/base", "src/io", "src/kernels", "src/attention", "src/layer"],
    "src/checkpoint": ["src/base", "src/io", "src/layer"],
    "src/decoder": ["src/base", "src/io", "src/layer", "src/checkpoint"],
    "src/picture": ["src/base", "src/io"],
    "src/tokens": ["src/base", "src/io"],
    "src/capi": ["src/base"],
    "lab/server": [],
    "cli": ["src/picture", "src/tokens", "lab/server"], "python": ["src/picture"], "examples": [],
    "fuzz": ["src/base", "src/io", "src/checkpoint"],
    "tests": ["src/base", "src/io", "src/kernels", "src/attention", "src/layer", "src/observe", "src/checkpoint", "src/decoder",
              "src/picture", "src/tokens", "src/capi", "lab/server", "fuzz"],
}

# Third-party headers that are one folder's affair.
ONLY_IN = {"hwy/": "src/kernels", "CLI/": "cli", "png.h": "src/picture", "httplib": "lab/server",
           "sentencepiece_processor.h": "src/tokens", "nanobind/": "python", "Python.h": "python"}

# What a public header may include besides its siblings: the standard library, whose headers have no folder.
STANDARD = re.compile(r"<[a-z0-9_]+(\.h)?>$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")', re.MULTILINE)
SUFFIXES = {".h", ".cc", ".c", ".cpp"}


def folder_of(path):
    """The row of the table that a file belongs to, or None."""
    return next((row for row in ALLOWED if path.startswith(row + "/")), None)


def includes_of(root, path):
    """(line number, text with its brackets or quotes, included file relative to root or None) for each include of a file."""
    text = (root / path).read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        written = match.group(1)
        name = written[1:-1]
        places = [pathlib.PurePosixPath(path).parent / name] if written[0] == '"' else []
        places += [pathlib.PurePosixPath(base) / name for base in ("include", "src", "tests", ".")]
        target = next((place.as_posix() for place in places if (root / place).is_file()), None)
        yield text.count("\n", 0, match.start(1)) + 1, written, target


def broken_rule(folder, written, target):
    """Why a file of this folder may not have this include, or None."""
    name = written[1:-1]
    owner = next((owner for prefix, owner in ONLY_IN.items() if name.startswith(prefix)), None)
    # Tests of pictures read back what was written.
    if owner is not None and folder != owner and not (folder == "tests" and owner == "src/picture"):
        return f"{name} belongs to {owner} alone"
    if ".." in name.split("/"):
        return f"{name}: write the path from include/ or src/"
    if target is None:
        if folder == "include/multihead" and not STANDARD.match(written):
            return f"a public header includes its siblings and the standard library, not {name}"
        return None
    to = folder_of(target)
    if to in (folder, "include/multihead") or to in ALLOWED[folder]:
        return None
    may = ", ".join(["include/multihead"] + ALLOWED[folder])
    return f"{folder} may include {may}; not {target}"


def find_cycle(graph):
    """A list of files that include each other in a circle, or None."""
    done = set()

    def visit(file, path):
        if file in path:
            return path[path.index(file):] + [file]
        if file in done:
            return None
        cycle = next(filter(None, (visit(to, path + [file]) for to in graph.get(file, []))), None)
        done.add(file)
        return cycle

    return next(filter(None, (visit(file, []) for file in sorted(graph))), None)


def check(root):
    """All broken rules of a tree, as lines for people."""
    files = [path.relative_to(root).as_posix() for row in sorted({row.split("/")[0] for row in ALLOWED})
             for path in sorted((root / row).rglob("*")) if path.suffix in SUFFIXES]
    problems = []
    graph = {}
    for path in files:
        folder = folder_of(path)
        if folder is None:
            problems.append(f"{path}: its folder is not in the table of scripts/check_includes.py")
            continue
        graph[path] = []
        for line, written, target in includes_of(root, path):
            rule = broken_rule(folder, written, target)
            if rule:
                problems.append(f"{path}:{line}: {rule}")
            if target and target != path:
                graph[path].append(target)
    cycle = find_cycle(graph)
    if cycle:
        problems.append("include cycle: " + " -> ".join(cycle))
    return files, problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files, problems = check(root)
    if not files:
        problems.append(f"{root}: no source files")
    for problem in problems:
        print(problem)
    print(f"check_includes: {len(files)} files, {len(problems)} broken rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
