"""Reads requests with h11: a line of base64 in, a line of JSON out."""
import base64
import json
import sys

import h11


def read(data):
    connection = h11.Connection(h11.SERVER)
    seen = {"head": None, "body": "", "complete": False}
    body = b""
    try:
        connection.receive_data(data)
        while not seen["complete"]:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                fields = [part.decode("latin1") for field in event.headers.raw_items() for part in field]
                seen["head"] = [
                    event.method.decode("latin1"),
                    event.target.decode("latin1"),
                    event.http_version.decode("latin1"),
                    *fields,
                ]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                seen["complete"] = True
            else:
                break
    except h11.RemoteProtocolError as error:
        seen["wrong"] = str(error)
    seen["body"] = body.decode("latin1")
    return seen


for line in sys.stdin:
    print(json.dumps(read(base64.b64decode(line))), flush=True)
