"""A headless Chromium for tests, or the sentence that says why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-dev-shm-usage", "--force-prefers-reduced-motion",
    "--window-size=1280,900",
)  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium(downloads: Path) -> Iterator[Any]:
    """Driver of a browser that saves downloads into a folder."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium with chromedriver found: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    opened = selenium.Chrome(options, selenium.ChromeService(driver))
    try:
        yield opened
    finally:
        opened.quit()


def open_page(driver: Any, path: Path) -> None:
    """Open a report as on a first visit and wait until its model is ready."""
    kept = {"origin": "file://", "storageTypes": "local_storage"}
    driver.execute_cdp_cmd("Storage.clearDataForOrigin", kept)
    driver.get(path.as_uri())
    wait_until_ready(driver)


def wait_until_ready(driver: Any) -> None:
    """Wait until the model of the page that is open is ready, without an error."""
    from selenium.webdriver.support.wait import WebDriverWait

    started = "return document.documentElement.dataset.ready || !document.all.failure.hidden"
    WebDriverWait(driver, 30).until(lambda d: d.execute_script(started))
    assert driver.get_log("browser") == []
