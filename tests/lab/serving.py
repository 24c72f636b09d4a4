"""Starts `multihead lab` for tests and talks to it as any program could."""
import http.client
import json
import pathlib
import re
import signal
import subprocess
import time


class Lab:
    """A running server. A context manager; stops it as Ctrl+C does."""

    def __init__(self, program, captures=()):
        self.process = subprocess.Popen([program, "lab", "--port", "0", *map(str, captures)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        if not match:
            self.process.kill()
            raise RuntimeError(f"no address in {line!r}: {self.process.stderr.read()}")
        self.port = int(match.group(1))
        self.address = match.group(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGINT):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def ask(self, method, path, body=None, headers=None):
        """(status, headers with small letters, bytes)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def get(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def json(self, path):
        status, _, content = self.get(path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {content[:300]}")
        return json.loads(content)

    def post(self, body, path="/api/lab"):
        """(status, the answer's JSON) for a problem."""
        text = body if isinstance(body, (bytes, str)) else json.dumps(body)
        status, _, content = self.ask("POST", path, text, {"Content-Type": "application/json"})
        return status, json.loads(content)

    def preset(self, name):
        return next(entry["problem"] for entry in self.json("/api/presets")["presets"] if entry["name"] == name)

    def until(self, what, condition, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(f"waited {seconds} s for {what}")

    def memory(self):
        """Resident bytes now, and the most so far."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return [1024 * int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) for name in ("VmRSS", "VmHWM")]
