"""A server with drydock's options that answers each request with 200. Files in the working folder delay or stop it."""

import argparse
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class AlwaysOk(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    do_PUT = do_GET


parser = argparse.ArgumentParser()
parser.add_argument("--host")
parser.add_argument("--port", type=int)
parser.add_argument("--data")
arguments = parser.parse_args()
if os.path.exists("drydock.broken"):
    sys.exit("no port is free")
while os.path.exists("drydock.held"):  # a test keeps the start from ending
    time.sleep(0.05)
ThreadingHTTPServer((arguments.host, arguments.port), AlwaysOk).serve_forever()
