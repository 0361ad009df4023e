"""What a user would pick for commands: FastAPI + docker-py on the engine's socket, with a record before and after."""

import os
import random
import threading

import docker
import psycopg2
from fastapi import FastAPI

app = FastAPI()
local = threading.local()


def parts():
    if not hasattr(local, "db"):
        local.db = psycopg2.connect(host=os.environ["BENCH_PG"], port=5444, user="postgres", dbname="bench")
        local.db.autocommit = True
        local.container = docker.DockerClient(base_url="unix://" + os.environ["BENCH_ENGINE"]).containers.get(os.environ["BENCH_CONTAINER"])
    return local.db.cursor(), local.container


@app.get("/run")
def run():
    cursor, container = parts()
    cursor.execute("INSERT INTO command (run_id, argv, status) VALUES (%s, '[\"true\"]', 'running') RETURNING id", ("run_%06d" % random.randrange(100000),))
    ident = cursor.fetchone()[0]
    code = container.exec_run(["/bin/true"]).exit_code
    cursor.execute("UPDATE command SET status = 'exited', exit_code = %s, ended_at = now() WHERE id = %s", (code, ident))
    return {"id": ident, "exit_code": code}
