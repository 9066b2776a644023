# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its DevTools protocol over a pipe: nothing but the browser
and Python's own library is needed."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """One page. `problems` collects what the console complained of, and requests that went out."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="plumb-browser-")
        to_read, self.to = os.pipe()
        self.from_, from_write = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "sh", program,
             "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self.folder.name}",
             "about:blank"],
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.number, self.rest, self.events, self.problems = 0, b"", [], []
        self.session = None
        self.session = self.send("Target.attachToTarget", targetId=self.first_page(),
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        while self.run("document.readyState") != "complete":  # so that its event is over
            time.sleep(0.01)

    def first_page(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for target in self.send("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return target["targetId"]
            time.sleep(0.01)
        raise EOFError("the browser has no page")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            session, self.session = self.session, None
            self.send("Browser.close")
            self.session = session
        except (OSError, EOFError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        self.folder.cleanup()

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.from_, 1 << 16)
            if not more:
                raise EOFError("the browser has gone")
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def note(self, event):
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(values["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.problems.append([a.get("value") for a in values["args"]])
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])
        self.events.append(event)

    def send(self, method, **values):
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.note(answer)

    def open(self, address, width=1100, height=900, dark=False, media=""):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.width = width
        assert "errorText" not in self.send("Page.navigate", url=address)
        self.wait_for_load()

    def follow(self, selector):
        """Click on a link and wait for the page that it leads to. The click comes after the answer
        to the command: a command in flight while the page goes away fails."""
        self.events.clear()
        self.run(f"setTimeout(() => document.querySelector({json.dumps(selector)}).click())")
        self.wait_for_load()

    def wait_for_load(self):
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.note(self.message())

    def requests(self):
        """What the page asked the network for since it was opened."""
        return [e["params"]["request"]["url"] for e in self.events
                if e.get("method") == "Network.requestWillBeSent"]

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, name, code, text=""):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "")

    def picture(self, path):
        # Sections that are out of sight are drawn only when they come into it.
        self.run("document.head.appendChild(document.createElement('style')).textContent = "
                 "'section{content-visibility:visible!important}'; true")
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
