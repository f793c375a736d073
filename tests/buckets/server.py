"""moto as a server of the S3 protocol, one request at a time. Requests with a bearer token are taken as Google's, whose XML
protocol is nearly the same.

With threads, moto looks whether a name is taken and then puts the object, and between the two another thread may do the
same: on a busy machine two creates of one object succeed now and then.

Below the prefix ``hides-uploads``, it refuses to list uploads, as for a user without that right.
"""
import sys
from urllib.parse import parse_qs, quote

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)


def application(environ, start_response):
    query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    if environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer "):
        environ["HTTP_AUTHORIZATION"] = "AWS gowk-test-key:x"
        # Google's clients write `gowk%2Dtest`, which moto would take for the name of the bucket.
        path = quote(environ["PATH_INFO"].encode("latin-1"))
        environ["RAW_URI"] = environ["REQUEST_URI"] = f"{path}?{environ['QUERY_STRING']}".rstrip("?")
        # Google knows this condition, and no other for a put.
        environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH") == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
    if "uploads" in query and query.get("prefix", [""])[0].startswith("hides-uploads"):
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>AccessDenied</Code></Error>"]
    return moto(environ, start_response)


run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=False, request_handler=MotoRequestHandler)
