"""Headless Chromium for the tests of pages."""

import shutil


def missing():
    """Why there is no browser to test with, or None."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (make test-browser installs it)"
    if not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")):
        return "no Chromium is installed (Debian: apt-get install chromium chromium-driver)"
    if not shutil.which("chromedriver"):
        return "no chromedriver is installed (Debian: apt-get install chromium-driver)"
    return None


WHY = missing()
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run --hide-scrollbars --force-prefers-reduced-motion"
)


def start():
    """A driver of a browser without a window."""
    assert WHY is None, WHY
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in FLAGS.split():
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def show(browser, page, width=1100, height=900, scheme="light", fragment=""):
    """Open a page, a path or an address, afresh on a screen of this width."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}], "media": ""}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(f"{page if '://' in str(page) else f'file://{page}'}{fragment}")
    return browser
