"""moto as a server of the S3 protocol, one request at a time.

With threads, moto looks whether a name is taken and then puts the object, and between the two another thread may do the
same: on a busy machine two creates of one object succeed now and then.
"""
import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=False, request_handler=MotoRequestHandler)
