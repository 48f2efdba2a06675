#!/usr/bin/python3
"""A service daemon by librados: registers, and then does what the lines of its standard input say. CONF SERVICE NAME."""
import json
import os
import signal
import sys

import rados

conf, service, name = sys.argv[1:]
cluster = rados.Rados(conffile=conf, rados_id="admin")
cluster.connect()
cluster.service_daemon_register(service, name, {"daemon_type": "portal", "made": "here"})
for line in sys.stdin:
    said = json.loads(line)
    if said == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    cluster.service_daemon_update(said)
# Takes leave of the manager.
cluster.shutdown()
