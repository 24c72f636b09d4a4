"""A browser for tests: Debian's chromium, headless, driven by its chromedriver over the W3C WebDriver protocol. Standard library only."""
import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"ArrowUp": "\ue013", "ArrowDown": "\ue015", "ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Enter": "\ue007", "Tab": "\ue004",
        "Shift": "\ue008", "Control": "\ue009", "Escape": "\ue00c", "Space": " ", "Home": "\ue011", "End": "\ue010"}
# Nothing but what the page itself does may reach for the network.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-default-apps", "--no-first-run", "--metrics-recording-only",
             "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1"]


def available():
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


class WebDriverError(Exception):
    pass


class Browser:
    """One browser window. A context manager."""

    def __init__(self, width=1440, height=1000, language="en-US", dark=False):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            match = re.search(r"started successfully on port (\d+)", line)
            if match:
                break
        else:
            raise WebDriverError("chromedriver did not start")
        self.root = f"http://127.0.0.1:{match.group(1)}"
        arguments = ARGUMENTS + [f"--window-size={width},{height}", f"--lang={language}"] + (["--force-dark-mode"] if dark else [])
        options = {"args": arguments, "prefs": {"intl.accept_languages": language},
                   "perfLoggingPrefs": {"enableNetwork": True, "enablePage": False}}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options,
                        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"
        self.post("/timeouts", {"script": 60000, "pageLoad": 60000, "implicit": 0})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", self.session)
        except (WebDriverError, OSError):
            pass
        self.driver.terminate()
        self.driver.wait(10)
        self.driver.stdout.close()

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.root + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise WebDriverError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def post(self, path, body):
        return self.call("POST", self.session + path, body)

    def open(self, address):
        self.post("/url", {"url": address})

    def resize(self, width, height):
        self.post("/window/rect", {"width": width, "height": height})

    def script(self, text, *arguments):
        return self.post("/execute/sync", {"script": text, "args": list(arguments)})

    def wait_script(self, text, *arguments):
        """An async function's body; its value is returned."""
        wrapped = ("const done = arguments[arguments.length - 1]; const args = [...arguments].slice(0, -1);"
                   f"(async () => {{ {text} }})().then((value) => done({{value}}), (error) => done({{error: String(error)}}));")
        answer = self.post("/execute/async", {"script": wrapped, "args": list(arguments)})
        if "error" in answer:
            raise WebDriverError(answer["error"])
        return answer.get("value")

    def find_all(self, selector):
        return [element[ELEMENT] for element in self.post("/elements", {"using": "css selector", "value": selector})]

    def find(self, selector):
        return self.post("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        """Scrolls there, then clicks as a person does."""
        element = self.find(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", {ELEMENT: element})
        self.post(f"/element/{element}/click", {})

    def type(self, selector, text):
        element = self.find(selector)
        self.post(f"/element/{element}/value", {"text": text})

    def text(self, selector):
        return self.call("GET", f"{self.session}/element/{self.find(selector)}/text")

    def press(self, *keys, hold=()):
        """Keys by name or character, to whatever has the focus."""
        actions = [{"type": "keyDown", "value": KEYS.get(key, key)} for key in hold]
        for key in keys:
            actions += [{"type": kind, "value": KEYS.get(key, key)} for kind in ("keyDown", "keyUp")]
        actions += [{"type": "keyUp", "value": KEYS.get(key, key)} for key in hold]
        self.post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def until(self, what, condition, seconds=15):
        """Waits for condition() to be true; fails with `what`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.03)
        raise AssertionError(f"waited {seconds} s for {what}")

    def screenshot(self):
        return base64.b64decode(self.call("GET", self.session + "/screenshot"))

    def full_screenshot(self, width):
        """The whole page, however long."""
        height = self.script("return document.documentElement.scrollHeight")
        self.resize(width, height + 150)
        return self.screenshot()

    def log(self, kind):
        return self.post("/se/log", {"type": kind})

    def requested_urls(self):
        """Addresses of all requests since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]
