"""Notes: a page, and an interface over a file."""
import json
import os
import pathlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).parent
STORE = pathlib.Path(os.environ.get("DATA_DIR", str(HERE))) / "notes.json"
FILES = {"/": "index.html", "/app.js": "app.js", "/style.css": "style.css"}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def load():
    return json.loads(STORE.read_text()) if STORE.exists() else {"last": 0, "notes": []}


def save(data):
    new = STORE.with_suffix(".new")
    new.write_text(json.dumps(data))
    new.replace(STORE)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def do_GET(self):
        if self.path == "/api/notes":
            return self.answer(200, load()["notes"])
        if self.path == "/api/export":
            text = "\n".join(note["text"] for note in load()["notes"]) + "\n"
            return self.answer(200, text.encode(), "text/plain")
        name = FILES.get(self.path)
        if not name:
            return self.answer(404, {"error": "no such page"})
        self.answer(200, (HERE / name).read_bytes(), TYPES[pathlib.Path(name).suffix])

    def do_POST(self):
        text = str(self.body().get("text", "")).strip()
        if not text:
            return self.answer(400, {"error": "a note needs a text"})
        data = load()
        data["last"] += 1
        note = {"id": data["last"], "text": text, "pinned": False}
        data["notes"].append(note)
        save(data)
        self.answer(201, note)

    def do_PUT(self):
        data, wanted = load(), self.body()
        for note in data["notes"]:
            if self.path == "/api/notes/%d" % note["id"]:
                note.update({key: wanted[key] for key in ("text", "pinned") if key in wanted})
                save(data)
                return self.answer(200, note)
        self.answer(404, {"error": "no such note"})

    def do_DELETE(self):
        data = load()
        left = [note for note in data["notes"] if self.path != "/api/notes/%d" % note["id"]]
        if len(left) == len(data["notes"]):
            return self.answer(404, {"error": "no such note"})
        data["notes"] = left
        save(data)
        self.answer(200, {})


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
