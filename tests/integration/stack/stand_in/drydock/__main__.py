"""A server with drydock's options that says yes to everything. Files where it is started decide when."""

import argparse
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Yes(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    do_PUT = do_GET


options = argparse.ArgumentParser()
options.add_argument("--host")
options.add_argument("--port", type=int)
options.add_argument("--data")
chosen = options.parse_args()
if os.path.exists("drydock.broken"):
    sys.exit("no berth is free")
while os.path.exists("drydock.held"):  # a start is under way for as long as a test says
    time.sleep(0.05)
ThreadingHTTPServer((chosen.host, chosen.port), Yes).serve_forever()
