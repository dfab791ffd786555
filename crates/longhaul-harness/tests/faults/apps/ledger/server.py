"""A ledger: pages made by the server, forms, no script but for the rates."""
import html
import json
import os
import pathlib
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).parent
STORE = pathlib.Path(os.environ.get("DATA_DIR", str(HERE))) / "ledger.json"
FILES = {"/app.js": ("app.js", "text/javascript"), "/style.css": ("style.css", "text/css")}


def load():
    return json.loads(STORE.read_text()) if STORE.exists() else []


def save(entries):
    STORE.write_text(json.dumps(entries))


def money(cents):
    return "%s%d.%02d" % ("-" if cents < 0 else "", abs(cents) // 100, abs(cents) % 100)


def row(number, entry):
    sign = 1 if entry["kind"] == "Income" else -1
    cells = [entry["date"], entry["what"], entry["kind"], money(sign * entry["cents"])]
    shown = "".join("<td>%s</td>" % html.escape(cell) for cell in cells)
    name = html.escape("Remove " + entry["what"], quote=True)
    form = '<form method="post" action="/remove"><input type="hidden" name="n" value="%d">' % number
    return '<tr class="entry">%s<td>%s<button class="remove" aria-label="%s">x</button></form></td></tr>' % (shown, form, name)


def page(kind, problem="", kept=None):
    entries, kept = load(), kept or {}
    shown = [(n, e) for n, e in enumerate(entries) if not kind or e["kind"] == kind]
    total = sum(e["cents"] if e["kind"] == "Income" else -e["cents"] for _, e in shown)
    parts = {
        "rows": "".join(row(n, e) for n, e in shown),
        "total": money(total),
        "count": "1 entry" if len(shown) == 1 else "%d entries" % len(shown),
        "problem": html.escape(problem),
        "what": html.escape(kept.get("what", ""), quote=True),
    }
    text = (HERE / "page.html").read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace("{{%s}}" % name, value)
    return text.encode("utf-8")


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="text/html", to=None):
        self.send_response(status)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if to:
            self.send_header("Location", to)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path in FILES:
            name, kind = FILES[path]
            return self.answer(200, (HERE / name).read_bytes(), kind)
        if path == "/":
            kind = urllib.parse.parse_qs(query).get("kind", [""])[0]
            return self.answer(200, page(kind))
        if path == "/rates":
            return self.answer(200, json.dumps({"EUR": "1.10", "CNY": "0.14"}).encode(), "application/json")
        if path == "/api/entries":
            return self.answer(200, json.dumps(load()).encode(), "application/json")
        if path == "/export.csv":
            lines = ["date,what,kind,cents"] + ["%s,%s,%s,%d" % (e["date"], e["what"], e["kind"], e["cents"]) for e in load()]
            return self.answer(200, ("\n".join(lines) + "\n").encode(), "text/csv")
        self.answer(404, b"no such page")

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {k: v[0] for k, v in urllib.parse.parse_qs(raw).items()}
        entries = load()
        if self.path == "/remove":
            del entries[int(form["n"])]
            save(entries)
            return self.answer(303, b"", to="/")
        try:
            cents = round(float(form.get("amount", "")) * 100)
        except ValueError:
            return self.answer(200, page("", "The amount must be a number", form))
        if cents <= 0:
            return self.answer(200, page("", "The amount must be more than zero", form))
        entry = {"date": form.get("date", ""), "what": form.get("what", ""), "kind": form.get("kind", ""), "cents": cents}
        save(entries + [entry])
        self.answer(303, b"", to="/")


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
