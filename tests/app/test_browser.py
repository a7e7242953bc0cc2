"""The page in a real browser: the whole way on a census sample, and what may go wrong on it.

With ``SURVEYSYNTH_PICTURES=docs/app`` the pictures of docs/app.md are made anew.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

import surveysynth as ss
from tests.conftest import without_r

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("shiny")
pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
PICTURES = os.environ.get("SURVEYSYNTH_PICTURES")
WAIT = int(os.environ.get("SURVEYSYNTH_WAIT", "300000"))  # milliseconds
SEEN = """() => [...document.querySelectorAll('section:not([hidden]) *, header *, nav *, aside *')].filter(
  (e) => e.offsetParent !== null && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))"""
CONTRAST = f"""() => {{
  const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => {{
    for (; e; e = e.parentElement) {{
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0.5) return c;
    }}
    return [255, 255, 255];
  }};
  return ({SEEN})().map((e) => {{
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.tagName + ': ' + e.textContent.trim().slice(0, 40)];
  }}).filter(([ratio]) => ratio < 4.5);
}}"""
NAMELESS = """() => [...document.querySelectorAll('input, select, textarea, button')].filter((e) =>
  !(e.labels && e.labels.length) && !e.ariaLabel && !e.textContent.trim()).map((e) => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


class Served:
    """A page that runs in a folder with a confidential file."""

    def __init__(self, folder, *arguments):
        self.folder, self.errors = folder, (folder / "errors.txt").open("w+")
        command = [sys.executable, "-m", "surveysynth", "app", *arguments, "--no-browser"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=without_r()
        )
        lines = iter(self.process.stdout.readline, "")
        self.address = next((line.strip() for line in lines if line.startswith("http://127.0.0.1:")), "")
        assert self.address, self.stop()
        self.page = self.address.partition("?")[0]
        self.host = "/".join(self.address.split("/")[:3])
        end = time.monotonic() + 60
        while time.monotonic() < end:  # until it answers
            try:
                urllib.request.urlopen(self.host)
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)

    def open(self, browser, width=1300, language="en-US"):
        """A tab of a new browser, with a list of what it asked of others and what went wrong."""
        context = browser.new_context(viewport={"width": width, "height": 900}, locale=language)
        tab = context.new_page()
        tab.set_default_timeout(WAIT)
        tab.wrong = []
        tab.on("request", lambda asked: tab.wrong.append(asked.url) if self._elsewhere(asked.url) else None)
        tab.on("pageerror", lambda error: tab.wrong.append(str(error)))
        tab.goto(self.address)
        ready(tab)
        return tab

    def _elsewhere(self, url):
        return not url.startswith((self.host, "data:", "blob:"))

    @property
    def plan(self):
        return tomllib.loads((self.folder / "plan.toml").read_text(encoding="utf-8"))

    def until(self, condition, seconds=20):
        """Wait until the plan's file says something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            path = self.folder / "plan.toml"
            if path.exists() and condition(self.plan):
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "plan.toml").read_text(encoding="utf-8"))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.errors.seek(0)
        return self.errors.read()


@pytest.fixture
def served(tmp_path):
    ss.datasets.census_sample(600, seed=3).frame.to_csv(tmp_path / "workers.csv", index=False)
    page = Served(tmp_path)
    yield page
    page.stop()


def ready(tab):
    tab.wait_for_function("window.Shiny && Shiny.shinyapp && Shiny.shinyapp.isConnected()")
    tab.wait_for_selector("aside p >> text=plan")


def go(tab, step):
    tab.click(f"nav [data-step={step}]")


def fill(tab, place, text):
    tab.fill(f"#{place}", text)
    tab.press(f"#{place}", "Tab")


def named(tab, served):
    """Name the file, and say what becomes of its columns."""
    fill(tab, "file-", "workers.csv")
    tab.wait_for_selector("#use-income")
    for column, use in {"division": "public", "education": "public", "income": "synthesized"}.items():
        tab.select_option(f"#use-{column}", use)
        served.until(lambda plan, column=column: column in str(plan["model"]) + str(plan["privacy"]))
        tab.wait_for_function(f"document.getElementById('use-{column}').value === '{use}'")
    fill(tab, "entry-privacy_2e_population_5f_total", "29501")
    served.until(lambda plan: plan["privacy"].get("population_total") == 29_501)


def declared(tab, served):
    go(tab, "outcomes")
    fill(tab, "fact-bounds_3a_income", "0")
    fill(tab, "fact-bounds_3a_income_2", "20000")
    served.until(lambda plan: plan["outcomes"].get("income") == {"bounds": [0, 20_000]})


def planned(tab, served):
    named(tab, served)
    declared(tab, served)
    go(tab, "tables")
    tab.check("#list-by_1")
    fill(tab, "entry-release_2e_title", "Weekly income")
    served.until(lambda plan: plan["tables"].get("by") == ["education"] and "title" in plan["release"])


def chosen(tab, served, epsilon="4"):
    go(tab, "budget")
    fill(tab, "entry-privacy_2e_epsilon", epsilon)
    served.until(lambda plan: plan["privacy"].get("epsilon") == float(epsilon))


def agreed(tab, served):
    planned(tab, served)
    chosen(tab, served)
    go(tab, "release")
    tab.check("#agree-spent")
    tab.wait_for_selector("#do-release:enabled")


def releasing(tab, served):
    agreed(tab, served)
    tab.click("#do-release")
    tab.wait_for_selector("#release_progress p")


def looked_at(tab, step, *, english=True):
    """Pictures of a step at two widths, after checks that hold on every page."""
    tab.mouse.move(0, 0)
    assert tab.evaluate(CONTRAST) == []
    assert tab.evaluate(NAMELESS) == []
    for width in (800, 1300):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        if PICTURES and english:
            tab.evaluate("document.activeElement.blur()")
            picture = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB").quantize(64)
            picture.save(Path(PICTURES).absolute() / f"{step}_{width}.png", optimize=True)


def test_the_whole_way(browser, served):
    tab = served.open(browser)
    planned(tab, served)
    for step in ("file", "outcomes", "tables"):
        go(tab, step)
        looked_at(tab, step)
    go(tab, "budget")
    tab.wait_for_selector("svg.bar")
    cells = tab.locator(".bars tbody tr").count()
    assert cells == 9  # four levels and all, counts and means; the count of all is public
    tab.focus("#budget-")
    tab.keyboard.press("ArrowRight")  # the slider by keyboard, from 3 to 5
    served.until(lambda plan: plan["privacy"].get("epsilon") == 5)
    tab.wait_for_function("document.getElementById('entry-privacy_2e_epsilon').value === '5'")
    tab.wait_for_function("document.querySelector('#budget_guess').innerText.includes('99.9955%')")
    tab.wait_for_selector("text=All made-up files are released")
    assert tab.locator("#budget_savings li").count() == 2
    looked_at(tab, "budget")
    go(tab, "release")
    fill(tab, "entry-privacy_2e_ledger", "budget.jsonl")
    fill(tab, "entry-privacy_2e_survey", "workers")
    fill(tab, "entry-privacy_2e_cap", "6")
    tab.click("#create-")
    tab.wait_for_selector("#release_ledger pre")
    tab.click("#do-check")
    tab.wait_for_selector("text=Before you release")
    assert tab.is_disabled("#do-release")
    tab.check("#agree-spent")
    tab.click("#do-release:enabled")
    tab.wait_for_selector("text=The release is made")
    tab.click("#do-compare:enabled")
    tab.wait_for_selector(".confidential >> text=contain the estimate of the file")
    tab.click("#do-dossier:enabled")
    tab.wait_for_selector("text=which the review board signs")
    tab.wait_for_selector("#release_ledger >> text=releases 1")
    looked_at(tab, "release")
    assert tab.wrong == []
    # the plan is what the command line releases, and the release is the plan's
    plan, release = ss.Plan.read(served.folder / "plan.toml"), ss.read_release(served.folder / "workers-release")
    assert release.privacy.epsilon == 5 and release.method["title"] == "Weekly income"
    assert plan.settings.privacy.public == ["division", "education"]
    assert plan.ledger.spent.blank == pytest.approx(5, rel=1e-6)
    assert (served.folder / "workers-release" / "public" / "tables.xlsx").exists()
    assert (served.folder / "workers-release-dossier" / "dossier.html").exists()
    assert not re.search("Traceback|token", served.stop())


def test_a_wrong_bound_is_refused_where_it_was_written(browser, served):
    tab = served.open(browser)
    named(tab, served)
    go(tab, "outcomes")
    fill(tab, "fact-bounds_3a_income", "20000")
    fill(tab, "fact-bounds_3a_income_2", "0")
    tab.wait_for_selector("#fault-fact-bounds_3a_income:not(:empty)")
    assert tab.get_attribute("#fact-bounds_3a_income", "aria-invalid") == "true"
    assert "fault-fact-bounds_3a_income" in tab.get_attribute("#fact-bounds_3a_income", "aria-describedby")
    assert "bounds" not in str(served.plan["outcomes"])
    fill(tab, "fact-bounds_3a_income", "0")
    fill(tab, "fact-bounds_3a_income_2", "20000")
    tab.wait_for_selector("#fault-fact-bounds_3a_income:empty", state="attached")
    served.until(lambda plan: plan["outcomes"] == {"income": {"bounds": [0, 20_000]}})


def test_a_page_loaded_again_during_a_release(browser, served):
    tab = served.open(browser)
    releasing(tab, served)
    tab.reload()
    tab.wait_for_selector("nav [data-step=release][aria-current]")
    tab.wait_for_selector("text=The release is made")
    assert ss.read_release(served.folder / "workers-release").privacy.epsilon == 4


def test_agreement_is_to_one_plan(browser, served):
    tab = served.open(browser)
    agreed(tab, served)
    chosen(tab, served, "6")
    go(tab, "release")
    tab.wait_for_selector("text=spends epsilon = 6")
    tab.wait_for_selector("#do-release:disabled")
    assert not tab.is_checked("#agree-spent")


def test_what_runs_is_finished_when_the_page_is_stopped(browser, served):
    tab = served.open(browser)
    releasing(tab, served)
    assert "Traceback" not in served.stop()
    assert ss.read_release(served.folder / "workers-release").privacy.epsilon == 4


def test_the_slider_means_what_it_shows(browser, served):
    """Also from an epsilon that is none of the slider's usual ones."""
    tab = served.open(browser)
    planned(tab, served)
    chosen(tab, served)
    for _ in range(3):
        tab.focus("#budget-")
        tab.keyboard.press("ArrowRight")
        shown = float(tab.input_value("#entry-privacy_2e_epsilon"))
        assert shown > 4 and float(tab.get_attribute("#budget-", "aria-valuetext")) == shown
        served.until(lambda plan, shown=shown: plan["privacy"]["epsilon"] == shown)
        tab.wait_for_timeout(700)  # two looks at what has changed
        assert float(tab.input_value("#entry-privacy_2e_epsilon")) == shown
    fill(tab, "other-", "privacy.epsilon = 2.3456789")
    tab.wait_for_function("document.getElementById('entry-privacy_2e_epsilon').value === '2.3456789'")
    tab.focus("#budget-")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowLeft")
    served.until(lambda plan: plan["privacy"]["epsilon"] == 2.3456789)
    assert tab.inner_text("#fault-entry-privacy_2e_epsilon") == ""


def test_a_field_shows_the_last_answer(browser, served):
    tab = served.open(browser)
    planned(tab, served)
    go(tab, "release")
    for folder in ("first", "second"):
        tab.fill("#entry-release_2e_folder", folder)
        tab.keyboard.press("Enter") if folder == "first" else tab.click("h1")
        served.until(lambda plan, folder=folder: plan["release"]["folder"] == folder)
        text = (served.folder / "plan.toml").read_text(encoding="utf-8")
        edited = text.replace("Weekly", "Monthly")  # so that all questions are shown again
        (served.folder / "plan.toml").write_text(edited, encoding="utf-8")
        tab.wait_for_selector("#plan_text >> text=Monthly")
        tab.wait_for_timeout(700)
        assert tab.input_value("#entry-release_2e_folder") == folder
        (served.folder / "plan.toml").write_text(text, encoding="utf-8")
        tab.wait_for_selector("#plan_text >> text=Weekly")


def test_a_file_that_is_no_plan_does_not_stop_the_page(browser, served):
    tab = served.open(browser)
    planned(tab, served)
    text = (served.folder / "plan.toml").read_text(encoding="utf-8")
    (served.folder / "plan.toml").write_bytes("title = 'Löhne'".encode("latin-1"))
    tab.wait_for_timeout(1_000)
    fill(tab, "other-", "privacy.epsilon")
    tab.wait_for_selector("#fault-other-:not(:empty)")
    (served.folder / "plan.toml").write_text(text, encoding="utf-8")
    fill(tab, "other-", "privacy.epsilon = 3")
    served.until(lambda plan: plan["privacy"].get("epsilon") == 3)
    fill(tab, "other-", "privacy.epsilon")
    tab.wait_for_selector("#fault-other- >> text=section.entry = value")
    assert served.plan["privacy"]["epsilon"] == 3 and tab.is_hidden("#gone")


def test_agreement_is_to_one_release(browser, served):
    """Agreement in a second tab ends with the release of the first."""
    first = served.open(browser)
    planned(first, served)
    chosen(first, served)
    second = first.context.new_page()
    second.set_default_timeout(WAIT)
    second.goto(served.page)
    ready(second)
    for tab in (first, second):
        go(tab, "release")
        tab.check("#agree-spent")
        tab.wait_for_selector("#do-release:enabled")
    first.click("#do-release")
    for tab in (first, second):
        tab.wait_for_selector("text=The release is made")
        tab.wait_for_selector("#do-release:disabled")
        assert not tab.is_checked("#agree-spent")


def test_two_tabs_show_the_same_plan(browser, served):
    first = served.open(browser)
    planned(first, served)
    second = first.context.new_page()
    second.set_default_timeout(WAIT)
    second.goto(served.page)
    ready(second)
    go(second, "outcomes")
    fill(second, "fact-round_3a_income", "10")
    served.until(lambda plan: plan["outcomes"]["income"].get("round") == 10)
    go(first, "outcomes")
    first.wait_for_function("document.getElementById('fact-round_3a_income').value === '10'")
    fill(first, "fact-bounds_3a_income_2", "30000")
    served.until(lambda plan: plan["outcomes"]["income"] == {"bounds": [0, 30_000], "round": 10})
    second.wait_for_function("document.getElementById('fact-bounds_3a_income_2').value === '30000'")


def test_the_token_works_once_and_for_one_browser(browser, served):
    served.open(browser)
    other = browser.new_context().new_page()
    answer = other.goto(served.address)
    assert answer.status == 403 and "token" in other.inner_text("body")
    assert other.goto(served.page).status == 403 and other.goto(served.host).status == 403
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(served.page, headers={"Host": "evil.example"}))


def test_the_first_step_by_keyboard_alone(browser, served):
    tab = served.open(browser)
    keys = tab.keyboard
    tab.wait_for_selector("#file-")
    for _ in range(40):  # to the name of the file
        keys.press("Tab")
        if tab.evaluate("document.activeElement.id") == "file-":
            break
    keys.type("workers.csv")
    keys.press("Tab")
    tab.wait_for_selector("#use-income")
    for column, letter in {"education": "p", "income": "s"}.items():
        for _ in range(60):
            keys.press("Tab")
            if tab.evaluate("document.activeElement.id") == f"use-{column}":
                break
        keys.type(letter)  # chooses the answer that begins so
        tab.wait_for_timeout(1_000)
        assert tab.evaluate("document.activeElement.id") == f"use-{column}"  # drawn anew, the place is kept
    served.until(lambda plan: plan["model"].get("formula") == "income ~ education")


@pytest.mark.parametrize(("language", "words"), [("de-DE", "Vertrauliche Datei"), ("fr-FR", "Fichier confidentiel")])
def test_the_language_of_the_browser(browser, served, language, words):
    tab = served.open(browser, language=language)
    tab.wait_for_selector("#file-")
    assert words in tab.inner_text("main") and tab.get_attribute("html", "lang") == language[:2]
    planned(tab, served)
    chosen(tab, served)
    for step in ("file", "outcomes", "tables", "budget", "release"):
        go(tab, step)
        looked_at(tab, step, english=False)


def test_names_and_labels_are_shown_as_text(browser, tmp_path):
    frame = ss.datasets.census_sample(300, seed=3).frame.rename(columns={"division": "<img src=x onerror=alert(1)>"})
    frame.to_csv(tmp_path / "workers.csv", index=False)
    page = Served(tmp_path)
    try:
        tab = page.open(browser)
        tab.on("dialog", lambda dialog: tab.wrong.append(dialog.message))
        fill(tab, "file-", "workers.csv")
        tab.wait_for_selector("#use-income")
        assert "<img src=x" in tab.inner_text("#file_columns") and tab.locator("main img").count() == 0
        assert tab.wrong == []
    finally:
        page.stop()
