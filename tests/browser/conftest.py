"""The app in a real browser: the system's Chromium drives an app that the tests start on a free port."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 30_000  # milliseconds; two cores may be busy
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def browser():
    if CHROMIUM is None:
        pytest.fail("the browser tests need the system's Chromium: apt-get install -y chromium (make test does it)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A fresh browser window; an error on the page's own console fails the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    window = context.new_page()
    window.set_default_timeout(PATIENCE)
    failures = []
    window.on("pageerror", lambda error: failures.append(str(error)))
    window.on("dialog", lambda dialog: (failures.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    yield window
    context.close()
    assert failures == []


@contextmanager
def served(runs: Path, **environment: str):
    """`fedpdc review` on a free port of this machine, as a user starts it; gives its address."""
    command = [sys.executable, "-m", "fedpdc_med.cli", "review", str(runs), "--port", str(free_port())]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with subprocess.Popen(
        command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as app:
        try:
            assert app.stdout
            printed = next((line for line in app.stdout if "URL: " in line), None)
            assert printed, f"the app ended with exit code {app.wait()}"
            yield printed.partition("URL: ")[2].strip()
        finally:
            app.send_signal(signal.SIGINT)
            try:
                app.wait(15)
            except subprocess.TimeoutExpired:
                app.kill()


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


@pytest.fixture(scope="session")
def serve():
    """serve(runs): a context in which the app runs on these runs; gives its address."""
    return served


@pytest.fixture(scope="session")
def choose():
    """choose(page, "Compare with", "run-b"): pick an option of a selectbox by typing it."""

    def pick(page: Page, label: str, option: str) -> None:
        box = page.get_by_role("combobox", name=label)
        box.click()
        page.get_by_role("option", name=option, exact=True).click()

    return pick
