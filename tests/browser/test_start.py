"""What ``make lab`` opens: the start page, whose links open the notebooks."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

from posenc_lib.view.prompt import PromptConnection

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("start")


@pytest.fixture(scope="module")
def address(browser, start_lab, tmp_path_factory):
    """A JupyterLab with the options of ``make lab``."""
    said = subprocess.run(["make", "-n", "lab"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in said.splitlines() if " -m jupyterlab " in line)
    options = [option for option in shlex.split(line) if option.startswith(("--LabApp", "--ServerApp"))]
    assert f"--ServerApp.kernel_websocket_connection_class={PromptConnection.__module__}.PromptConnection" in options
    beside = tmp_path_factory.mktemp("start")
    shutil.copytree(ROOT / "notebooks", beside / "notebooks", ignore=shutil.ignore_patterns("assignments"))
    with start_lab(beside / "notebooks", beside, *options) as address:
        yield address


def test_it_opens_on_the_start_page_which_leads_to_a_notebook(browser, address):
    page = browser.new_page()
    page.goto(address)
    expect(page.get_by_role("heading", name="The map")).to_be_visible()
    expect(page.locator(".jp-RenderedMarkdown mjx-container").first).to_be_visible()
    page.get_by_role("link", name="RoPE", exact=True).click()
    expect(page.locator(".jp-Notebook").get_by_role("heading", name="13 Rotary")).to_be_visible()
    page.close()
