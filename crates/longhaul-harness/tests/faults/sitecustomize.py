"""Plants one fault into whatever server of the standard library Python starts with this on its path. It knows no
application: LONGHAUL_FAULT names the kind."""
import os
import pathlib
import tempfile
import time
from http.server import BaseHTTPRequestHandler as Handler

KIND = os.environ.get("LONGHAUL_FAULT", "")
CHANGES = ("POST", "PUT", "DELETE")
send_response, send_header, handle_one = Handler.send_response, Handler.send_header, Handler.handle_one_request
write_text = pathlib.Path.write_text


def status(own, code, *rest):
    if KIND == "changes-fail" and own.command in CHANGES:
        code = 500
    if KIND == "asset-missing" and own.path.endswith(".css"):
        code = 404
    if KIND == "wrong-status" and code >= 400:
        code = 200
    if KIND == "crash-on-change" and own.command in CHANGES:
        os._exit(1)
    if KIND == "slow-change" and own.command in CHANGES:
        time.sleep(9)
    send_response(own, code, *rest)
    if KIND == "cached" and own.command == "GET":
        send_header(own, "Cache-Control", "max-age=3600")


def header(own, name, value):
    if KIND == "garbled" and name == "Content-Type":
        value = value.replace("utf-8", "windows-1252")
    if KIND == "wrong-redirect" and name == "Location":
        value = "/nowhere"
    if KIND == "script-as-text" and name == "Content-Type":
        value = value.replace("text/javascript", "text/plain; x=y")
        send_header(own, "X-Content-Type-Options", "nosniff")
    send_header(own, name, value)


def keep(path, text, *rest, **more):
    if KIND == "not-written":
        return len(text)
    return write_text(path, text[:-4] if KIND == "half-written" else text, *rest, **more)


Handler.send_response, Handler.send_header, pathlib.Path.write_text = status, header, keep
if KIND == "lost-at-restart":
    os.environ["DATA_DIR"] = tempfile.mkdtemp(dir=os.environ["DATA_DIR"])
