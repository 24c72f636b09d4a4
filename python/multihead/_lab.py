"""The lab, from Python: the command line's server, with captures that live in this process."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import webbrowser

from ._core import Capture


class Lab:
    """A running lab. `address` is its page; `stop` ends it, as does leaving a `with` block, or this program's end."""

    def __init__(self, command: list[str], folder: tempfile.TemporaryDirectory[str]):
        self._folder = folder
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+/", line)
        if match is None:
            _, reason = self._process.communicate()
            self._folder.cleanup()
            raise RuntimeError(f"lab: {' '.join(command[:2])} ended: {reason.strip() or line.strip()}")
        self.address: str = match.group(0)

    def stop(self) -> None:
        """Ends the server and removes its files. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()
        self._folder.cleanup()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        if hasattr(self, "address") and self._process.poll() is None:
            self.stop()

    def __repr__(self) -> str:
        return f"<Lab at {self.address}>"


def lab(*captures: Capture | str | os.PathLike[str], port: int = 0, open_browser: bool = True, program: str | None = None) -> Lab:
    """Starts the lab with the maps of some captures, on this machine only, and shows its page in a browser.

    captures      Capture objects, or files that `Capture.save` or `multihead capture` wrote; none: the lab's own small layer
    port          where it listens on 127.0.0.1; 0 takes a free one
    open_browser  False: only serve
    program       the `multihead` command line, which has the server; None: the one on PATH

    Raises FileNotFoundError without that program, RuntimeError with its words when it ends at once.
    """
    found = program or shutil.which("multihead")
    if found is None:
        raise FileNotFoundError("lab: expected the command line `multihead` on PATH, which serves the lab; build it with ./dev build, "
                                "or give its path as program=")
    folder = tempfile.TemporaryDirectory(prefix="multihead-lab-")
    files = []
    for number, capture in enumerate(captures):
        if isinstance(capture, Capture):
            name = re.sub(r"[^\w.-]+", "_", capture.name) or "capture"
            files.append(str(pathlib.Path(folder.name) / f"{number:03}-{name}.safetensors"))
            capture.save(files[-1])
        else:
            files.append(os.fspath(capture))
    server = Lab([found, "lab", "--port", str(port), *files], folder)
    if open_browser:
        webbrowser.open(server.address)
    return server
