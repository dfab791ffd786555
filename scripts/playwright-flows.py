"""The flows of some features of the test applications, written by hand with Playwright, for `cargo xtask bench harness`.

Says as JSON how long each took, in milliseconds, from a new profile to the last picture: `{"notes/N01": [812.0, …]}`. A
picture of the window after every sentence, as the verifier takes them. The application of each flow starts afresh on
empty data; that, like the start of the browser, is not measured.

    playwright-flows.py APPS CHROMIUM ROUNDS
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import expect, sync_playwright

APPS, CHROMIUM, ROUNDS = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def notes_n01(page, picture):
    items = page.get_by_role("region", name="All notes").get_by_role("listitem")
    new = page.get_by_role("textbox", name="New note")
    page.goto("/")
    expect(page.get_by_role("heading", name="Notes", exact=True)).to_be_visible()
    before = items.count()
    picture()
    new.fill("buy milk")
    expect(new).to_have_value("buy milk")
    page.get_by_role("button", name="Add").click()
    picture()
    expect(items).to_have_count(before + 1)
    expect(items.nth(0)).to_contain_text("buy milk")
    picture()
    expect(new).to_have_value("")
    expect(new).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("1 note")
    picture()


def notes_n04(page, picture):
    row = page.get_by_role("region", name="All notes").get_by_role("listitem").filter(has_text="old news")
    page.goto("/")
    page.get_by_role("textbox", name="New note").fill("old news")
    page.get_by_role("button", name="Add").click()
    expect(row).to_be_visible()
    picture()
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete old news").click()
    picture()
    expect(row).to_be_visible()
    picture()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete old news").click()
    picture()
    expect(row).to_be_hidden()
    expect(page.get_by_role("status")).to_have_text("0 notes")
    picture()


def notes_n09(page, picture):
    everything = page.get_by_role("region", name="All notes")
    page.goto("/")
    page.get_by_role("textbox", name="New note").fill("tpyo")
    page.get_by_role("button", name="Add").click()
    expect(everything.get_by_role("listitem").filter(has_text="tpyo")).to_be_visible()
    page.get_by_role("button", name="Edit tpyo").click()
    picture()
    editor = page.get_by_role("dialog", name="Edit note").get_by_role("textbox", name="Text")
    expect(editor).to_have_value("tpyo")
    picture()
    editor.fill("typo")
    page.get_by_role("button", name="Save").click()
    picture()
    expect(everything.get_by_text("typo", exact=True)).to_be_visible()
    expect(page.get_by_text("tpyo", exact=True)).to_be_hidden()
    expect(page.get_by_role("dialog")).to_be_hidden()
    picture()


def board_b02(page, picture):
    column = page.get_by_role("region", name="To do")
    items = column.get_by_role("listitem")
    page.goto("/")
    expect(column.get_by_role("listitem", name="Read the plan")).to_be_visible()
    before = items.count()
    picture()
    page.get_by_role("textbox", name="Card").fill("Paint the fence")
    page.get_by_role("button", name="Add card").click()
    picture()
    expect(column.get_by_role("listitem", name="Paint the fence")).to_be_visible()
    expect(items).to_have_count(before + 1)
    expect(column.get_by_role("paragraph")).to_have_text("2 cards")
    expect(page.get_by_role("textbox", name="Card")).to_have_value("")
    picture()
    page.reload()
    expect(column.get_by_role("listitem", name="Paint the fence")).to_be_visible()
    picture()


def board_b05(page, picture):
    plan = page.get_by_role("region", name="To do").get_by_role("listitem", name="Read the plan")
    cards = page.get_by_role("main").get_by_role("listitem")
    choice = page.get_by_role("combobox", name="Priority")
    page.goto("/")
    expect(plan).to_be_visible()
    choice.select_option(label="High")
    picture()
    expect(choice).to_have_value("High")
    expect(page.get_by_role("region", name="Doing").get_by_role("listitem", name="Write the page")).to_be_visible()
    expect(plan).to_be_hidden()
    expect(cards).to_have_count(1)
    picture()
    choice.select_option(label="Any")
    expect(cards).to_have_count(2)
    picture()


def book(page, what, amount, kind):
    page.get_by_label("Date").fill("2026-02-03")
    page.get_by_role("textbox", name="What").fill(what)
    page.get_by_role("combobox", name="Kind").select_option(label=kind)
    page.get_by_role("textbox", name="Amount").fill(amount)
    page.get_by_role("button", name="Book").click()


def ledger_l02(page, picture):
    page.goto("/")
    book(page, "salary", "1200", "Income")
    book(page, "rent", "700.50", "Expense")
    book(page, "books", "19.99", "Expense")
    picture()
    expect(page.get_by_role("status", name="Balance")).to_have_text("Balance: 479.51 in 3 entries")
    picture()


def ledger_l03(page, picture):
    salary, rent = page.get_by_role("cell", name="salary", exact=True), page.get_by_role("cell", name="rent", exact=True)
    page.goto("/")
    book(page, "salary", "1200", "Income")
    book(page, "rent", "700", "Expense")
    picture()
    page.get_by_role("link", name="Income").click()
    picture()
    assert "kind=Income" in page.url
    expect(salary).to_be_visible()
    expect(rent).to_be_hidden()
    expect(page.get_by_role("status", name="Balance")).to_contain_text("1200.00 in 1 entry")
    picture()
    page.get_by_role("link", name="Expenses").click()
    expect(rent).to_be_visible()
    expect(salary).to_be_hidden()
    expect(page.get_by_role("table", name="Entries").get_by_role("button")).to_have_count(1)
    picture()


FLOWS = {
    "notes/N01": notes_n01,
    "notes/N04": notes_n04,
    "notes/N09": notes_n09,
    "board/B02": board_b02,
    "board/B05": board_b05,
    "ledger/L02": ledger_l02,
    "ledger/L03": ledger_l03,
}


def serve(app, data):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = dict(os.environ, PORT=str(port), DATA_DIR=data, PYTHONDONTWRITEBYTECODE="1")
    server = subprocess.Popen(["/bin/sh", "init.sh"], cwd=APPS / app, env=env)
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, "http://127.0.0.1:%d" % port
        except OSError:
            time.sleep(0.01)
    raise SystemExit("%s does not start" % app)


def measure(browser, flow, base):
    began = time.perf_counter()
    context = browser.new_context(base_url=base, viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    flow(page, page.screenshot)
    page.screenshot()
    took = (time.perf_counter() - began) * 1000
    context.close()
    wrong = [text for text in wrong if "favicon" not in text and "404" not in text]
    if wrong:
        raise SystemExit("%s: %s" % (flow.__name__, wrong))
    return took


def main():
    times = {name: [] for name in FLOWS}
    # Chromium refuses its own sandbox to root; the verifier runs it as an ordinary user instead.
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        for _ in range(ROUNDS):
            for name, flow in FLOWS.items():
                with tempfile.TemporaryDirectory() as data:
                    server, base = serve(name.split("/")[0], data)
                    try:
                        times[name].append(measure(browser, flow, base))
                    finally:
                        server.kill()
                        server.wait()
        browser.close()
    print(json.dumps(times))


main()
