"""Serves the files of the board; it keeps nothing, the browser does."""
import os
import pathlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).parent
FILES = {"/": "index.html", "/about": "about.html", "/app.js": "app.js", "/style.css": "style.css"}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        name = FILES.get(self.path.split("?")[0])
        body = (HERE / name).read_bytes() if name else b"no such page"
        self.send_response(200 if name else 404)
        self.send_header("Content-Type", TYPES[pathlib.Path(name or "x.html").suffix] + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
