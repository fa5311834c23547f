"""The page in a real Chromium: what a person does, with no network, and no error in the console."""

import json
import shutil
import threading

import pytest

import stagewise
from serve_cases import ask, create, scenario_file, serving, small_rounds, small_scenario
from small_runs import small_run
from stagewise.runs.config import Replanning
from stagewise.runs.directory import RunDirectory
from stagewise.serve import jobs, settings
from stagewise.simulator.start import resume

pytestmark = pytest.mark.processes
CHROMIUM = "/usr/bin/chromium"
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # With the network cut: nothing but loopback can be reached.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="module")
def browser():
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"needs a browser: there is no {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    wrong = []
    opened.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda r: wrong.append(r.url) if not _ours(r.url) else None)
    yield opened
    assert opened.is_closed() and wrong == []


def _ours(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def run_of(folder, policy: str) -> None:
    small_run(folder, policy=policy, rounds=4, replanning=Replanning())


def test_a_run_is_watched_to_its_end(tmp_path, page):
    """It appears while it goes on, round after round; the slider moves through what there is."""
    runs = tmp_path / "runs"
    with serving(str(tmp_path / "a.db"), str(runs)) as client:
        going_on = threading.Thread(target=run_of, args=(runs / "a", "fedcs"))
        page.goto(client.address)
        page.wait_for_selector("text=None under the folder of runs")
        going_on.start()
        page.wait_for_selector("a[href='#/run/a']", timeout=60000)
        page.click("a[href='#/run/a']")
        page.wait_for_selector(".player output:has-text('round 3 of 4')", timeout=60000)
        going_on.join()
        page.wait_for_selector("section:has-text('Accuracy by round') .main-svg")
        slider = page.locator(".player input")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(".player output:has-text('round 2 of 4')")
        page.locator("h1").click()
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(".player output:has-text('round 1 of 4')")
        page.keyboard.press(" ")
        page.wait_for_selector(".player output:has-text('round 3 of 4')")
        page.click("#check")
        page.wait_for_selector("text=Every figure of every round is true.")
        page.click("#prove")
        page.wait_for_selector("text=optima: 100.0%", timeout=60000)
        page.wait_for_selector("text=certified optimum")
        page.close()


def test_what_is_known_of_a_run_is_fetched_once_unless_the_run_went_back(tmp_path, page):
    runs, fetched = tmp_path / "runs", []
    run_of(runs / "a", "fedcs")
    lines = (runs / "a" / "decisions.jsonl").read_bytes().splitlines()
    with serving(str(tmp_path / "a.db"), str(runs)) as client:
        page.goto(client.address)
        page.on("request", lambda r: fetched.append(r.url) if "decisions.jsonl" in r.url else None)
        start = """async () => {
            const { Source } = await import("/page/source.js");
            window.source = await new Source("run", "a").load();
        }"""
        update = "async () => { await source.update(); return source.decisions; }"
        page.evaluate(start)
        assert page.evaluate(update) == [json.loads(line) for line in lines]
        assert len(fetched) == 1
        RunDirectory(runs / "a").roll_back(1)
        assert page.evaluate(update) == [json.loads(line) for line in lines[:2]]
        resume(runs / "a")
        again = (runs / "a" / "decisions.jsonl").read_bytes().splitlines()
        assert page.evaluate(update) == [json.loads(line) for line in again]
        assert fetched[-1].endswith("first=1&count=3")
        page.close()


def test_a_plan_that_is_made_again_is_shown_with_how_far_it_is(tmp_path, page, monkeypatch):
    go_on = threading.Event()
    make_plan = jobs.make_plan

    def slow(*args, progress, **options):
        progress(0.5)
        assert go_on.wait(60)
        return make_plan(*args, progress=progress, **options)

    monkeypatch.setattr(jobs, "make_plan", slow)
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="stagewise-flexible")
        page.goto(f"{client.address}/#/federation/a")
        shown = page.locator("section:has-text('Plan A: long-term clients')")
        shown.evaluate("section => { section.dataset.plan = 'before'; }")
        page.click("#replan")
        page.wait_for_selector("#working:has-text('new plan: 50.0%')")
        [job] = [one for one in client.get("/v1/jobs").json() if one["kind"] == "plan"]
        assert (job["state"], job["progress"]) == ("running", 0.5)
        go_on.set()
        page.wait_for_function("() => document.querySelector('#working').textContent === ''")
        plans = client.get("/v1/federations/a/plans").json()
        assert [plan["followed"] for plan in plans] == [False, True]
        page.wait_for_selector("section:not([data-plan]):has-text('Plan A: long-term clients')")
        assert shown.count() == 1
        page.close()


def test_a_plan_that_is_ready_after_the_page_is_opened_is_shown(tmp_path, page, monkeypatch):
    go_on, make_policy = threading.Event(), settings.make_policy

    def slow(*args):
        assert go_on.wait(60)
        return make_policy(*args)

    monkeypatch.setattr(settings, "make_policy", slow)
    with serving(str(tmp_path / "a.db")) as client:
        sent = client.post("/v1/scenarios", content=scenario_file(small_scenario()))
        body = {"scenario": sent.json()["sha256"], "policy": "stagewise-flexible"}
        assert client.put("/v1/federations/a", json=body).status_code == 201
        page.goto(f"{client.address}/#/federation/a")
        page.wait_for_selector("#working:has-text('policy')")
        assert not page.locator("#replan").is_visible()
        assert not page.locator("#more").is_visible()
        assert page.locator("section:has-text('Plan A: long-term clients')").count() == 0
        go_on.set()
        page.wait_for_selector("#replan")
        page.wait_for_selector("#more")
        for title in ("Plan A: risks of every edge", "Plan A: long-term clients"):
            assert page.locator(f"section:has-text('{title}')").count() == 1
        page.wait_for_function("() => document.querySelector('#working').textContent === ''")
        page.close()


# Watch, and count what is drawn and the pauses before something is asked for again.
WATCH = """async (fails) => {
    const { Source } = await import("/page/source.js"), later = window.setTimeout;
    window.pauses = 0;
    window.setTimeout = (work, ms) => {
        if (new Error().stack.includes("/source.js")) window.pauses += 1;
        return later(work, ms);
    };
    window.drawn = 0;
    window.addEventListener("unhandledrejection", (event) => {
        event.preventDefault();
        window.failure = event.reason.message;
    });
    const source = await new Source("federation", "a").load();
    const changed = () => { window.drawn += 1; if (fails) throw new Error("cannot be drawn"); };
    source.watch(changed, () => {}, new AbortController().signal);
}"""


def test_an_error_in_drawing_is_one_and_the_next_event_is_drawn(tmp_path, page):
    """It is no service that is away, to be asked again and again."""
    first, second = small_rounds(small_scenario(), 2)
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="fedcs")
        page.goto(client.address)
        page.evaluate(WATCH, True)
        ask(client, first)
        page.wait_for_function("() => window.failure === 'cannot be drawn'")
        drawn = page.evaluate("window.drawn")
        ask(client, second)
        page.wait_for_function("before => window.drawn > before", arg=drawn)
        assert page.evaluate("window.pauses") == 0
        page.close()


def test_a_federation_that_was_removed_is_not_asked_for_again(tmp_path, browser):
    asked = []

    def gone(route):
        asked.append(route)
        route.fulfill(status=404, json={"error": "federation 'a': is not there"})

    [first] = small_rounds(small_scenario(), 1)
    page = browser.new_page()  # a browser tells of every 404 in its console
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="fedcs")
        page.goto(client.address)
        page.evaluate(WATCH, False)
        page.route("**/v1/federations/a", gone)
        with page.expect_response(lambda answer: answer.status == 404):
            ask(client, first)
        page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 100))")
        assert page.evaluate("[window.pauses, window.drawn]") == [0, 0]
        assert len(asked) == 1
        page.close()


def test_an_outage_is_tried_and_nothing_is_kept(tmp_path, page):
    with serving(str(tmp_path / "a.db")) as client:
        create(client, small_scenario(), policy="stagewise-flexible")
        page.goto(f"{client.address}/#/federation/a")
        page.click("#more")
        page.wait_for_selector(".player output:has-text('round 9')", timeout=60000)
        before = client.get("/v1/federations/a").json()
        page.locator("label:has-text('es0') input").check()
        page.wait_for_selector("#try td:has-text('certified optimum')")
        assert "As tried" in page.locator("section:has-text('Map') p").first.inner_text()
        page.locator("label:has-text('kld_max') input").first.fill("0.6")
        page.wait_for_selector("text=With a new plan by local search")
        with page.expect_download() as kept:
            page.click("button[aria-label='CSV: Try it']")
        assert "cost" in kept.value.path().read_text()
        page.click("button[aria-label='Reset: Try it']")
        page.wait_for_selector("text=Nothing is changed.")
        box = page.locator("section:has-text('Map') canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert client.get("/v1/federations/a").json() == before
        page.close()


def test_every_edge_of_many_can_be_tried_without(tmp_path, page):
    scenario = stagewise.generate.numeric(clients=140, edges=70, seed=0)
    with serving(str(tmp_path / "a.db")) as client:
        create(client, scenario, policy="fedcs")
        ask(client, stagewise.participation.bernoulli(scenario, rounds=1, seed=0)[0])
        page.goto(f"{client.address}/#/federation/a")
        last = page.locator("#try label", has_text=scenario.edges.ids[-1])
        with page.expect_response("**/try") as tried:
            last.locator("input").check()
        assert tried.value.request.post_data_json["down"] == [scenario.edges.ids[-1]]
        page.wait_for_selector("text=As tried: ", timeout=60000)
        page.close()


def test_two_runs_are_compared_in_the_dark_and_on_a_phone(tmp_path, page):
    runs = tmp_path / "runs"
    for policy in ("fedcs", "c2e-assoc-only"):
        run_of(runs / policy, policy)
    with serving(str(tmp_path / "a.db"), str(runs)) as client:
        page.goto(client.address)
        for policy in ("fedcs", "c2e-assoc-only"):
            page.locator(f"input[aria-label='Compare {policy}']").check()
        page.click("text=Compare")
        page.wait_for_selector("text=Runs side by side")
        page.wait_for_selector(
            "section:has-text('Accuracy by what the rounds have cost') .main-svg"
        )
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.keyboard.press("d")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert light == "rgb(255, 255, 255)" and sum(_rgb(dark)) < 150
        for kind in ("PNG", "SVG", "CSV"):
            with page.expect_download() as kept:
                page.click(f"button[aria-label='{kind}: Accuracy by round']")
            assert kept.value.path().stat().st_size > 100
        page.set_viewport_size({"width": 390, "height": 844})
        for address in ("#/", "#/run/fedcs", "#/compare/fedcs&c2e-assoc-only"):
            page.goto(f"{client.address}/{address}")
            page.wait_for_selector("h1")
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        page.close()


def test_map_and_matrix_do_not_wait_for_the_library_of_charts(tmp_path, page):
    """It takes longer to start than ten thousand clients to draw."""
    held = []
    page.route("**/plotly.min.js", lambda route: held.append(route))
    drawn = """title => {
        const box = [...document.querySelectorAll("section")].find((s) => s.innerText.includes(title));
        const canvas = box?.querySelector("canvas");
        if (!canvas?.width) return false;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some(Boolean);
    }"""
    with serving(str(tmp_path / "a.db")) as client:
        scenario = small_scenario()
        create(client, scenario, policy="fedcs")
        for round_ in small_rounds(scenario, 3):
            ask(client, round_)
        page.goto(f"{client.address}/#/federation/a")
        for title in ("Map", "Who was online, who trained"):
            page.wait_for_function(drawn, arg=title)
        assert page.locator(".main-svg").count() == 0
        page.wait_for_function("() => document.querySelector('script[src*=plotly]')")
        held[0].continue_()
        page.wait_for_selector("section:has-text('Cost of a round') .main-svg")
        page.close()


def test_a_demo_is_one_click_away(tmp_path, page):
    with serving(str(tmp_path / "a.db")) as client:
        page.goto(client.address)
        page.click("#demo")
        page.wait_for_selector(".player output:has-text('round 29')", timeout=120000)
        page.wait_for_selector("text=Plan A: risks of every edge")
        assert client.get("/v1/federations/demo").json()["rounds"] == 30
        page.close()


def _rgb(text: str) -> list[int]:
    return [int(part) for part in text.removeprefix("rgb(").removesuffix(")").split(",")]
