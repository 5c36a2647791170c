"""Chromium for tests of pages. Needs /usr/bin/python3, for which Debian installs Selenium."""
import os
import shutil
import subprocess

import stall
from run_lib import wait_for
from store_lib import STALL_S, TIMEOUT_S, Skip


def start(profile, size):
    """Starts a browser without a window. Each attempt has a profile of its own below the directory `profile`."""
    from selenium import webdriver  # pylint: disable=import-outside-toplevel
    from selenium.common.exceptions import WebDriverException  # pylint: disable=import-outside-toplevel
    from selenium.webdriver.chrome.service import Service  # pylint: disable=import-outside-toplevel

    def begin(number):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={size}",
                     f"--user-data-dir={os.path.join(profile, str(number))}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        except WebDriverException as why:  # its start has a timeout of a minute
            raise AssertionError(f"the browser does not start: {why}") from why
    return stall.judge(begin, STALL_S, "the start of the browser")


class Browser:
    """A browser without a window. `profile`: an empty directory, which `close` removes."""

    def __init__(self, profile):
        for program in ("chromium", "chromedriver"):
            if not shutil.which(program):
                raise Skip(f"{program} is not installed")
        try:
            self.driver = start(profile, "1160,1100")
        except ImportError as why:
            raise Skip("python3-selenium is not installed") from why
        self.profile = profile
        self.driver.set_script_timeout(TIMEOUT_S)

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def pids(self):
        """The processes of the browser."""
        children = {}
        for line in subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines():
            pid, parent = map(int, line.split())
            children.setdefault(parent, []).append(pid)
        found = [self.driver.service.process.pid]
        for pid in found:
            found += children.get(pid, [])
        return found

    def open(self, address):
        self.driver.get(address)

    def ask(self, script, *words):
        return self.driver.execute_script(script, *words)

    def text(self, element):
        return self.ask("return document.getElementById(arguments[0]).innerText", element)

    def click(self, script):
        """Clicks the element that the script returns, as a user does, once it exists. Pages replace elements meanwhile."""
        from selenium.common.exceptions import WebDriverException  # pylint: disable=import-outside-toplevel

        def clicked():
            element = self.ask(script)
            if not element:
                return False
            try:
                element.click()
                return True
            except WebDriverException:
                return False
        clicked.__doc__ = f"an element to click: {script}"
        wait_for(clicked, TIMEOUT_S, 0.05)

    def type(self, element, text):
        from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
        self.driver.find_element(By.ID, element).send_keys(text)

    def wait(self, what, script, *words):
        """Waits until the script returns something true, and returns that."""
        found = []

        def shown():
            found[:] = [self.ask(script, *words)]
            return found[0]
        shown.__doc__ = what
        try:
            wait_for(shown, TIMEOUT_S, 0.02)
        except AssertionError as why:
            raise AssertionError(f"{why}; the page shows: {self.ask('return document.body.innerText')}; console: {self.console()}") from why
        return found[0]

    def console(self):
        return [entry for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def requests(self):
        return self.ask("return performance.getEntriesByType('resource').map((entry) => entry.name)")

    def picture(self, path):
        self.driver.save_screenshot(path)
        os.chmod(path, 0o644)
