"""A site of pages on this machine, which writes down which page it gave to whom. Each page links to two more, so that
none is found but through the pages above it, and to the page above it.

python site.py PAGES LOG: prints the port.
"""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGES = int(sys.argv[1])
LOG = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/"))
        links = [page for page in (2 * number, 2 * number + 1, number // 2) if 0 < page <= PAGES]
        body = "".join(f'<a href="/{page}">{page}</a>\n' for page in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        os.write(LOG, b"%d\n" % number)

    def log_message(self, *arguments: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
